"""What is shown of topics and channels as it is now, and not kept: who consumes, what is paused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.admin.history.sample import Sample

FACTS: Final = ("clients", "paused", "channels", "waiting")
"""Consumers; 1 where a node has it paused; channels of a topic; its depth and its channels' depths.

Zeros where they mean nothing.
"""
_CLIENTS, _PAUSED, _CHANNELS, _WAITING = range(len(FACTS))


class Placed(NamedTuple):
    """A sample and its rows: of topics and channels, then of the channels' topics; -1: none."""

    sample: Sample
    own: NDArray[np.intp]
    above: NDArray[np.intp]


def facts_of(placed: Iterable[Placed], depths: NDArray[np.float64]) -> NDArray[np.float32]:
    """A column for each row; `depths` are theirs. A topic's consumers are those of its channels."""
    width = len(depths)
    facts = np.zeros((len(FACTS), width))
    topics = np.full(width, -1)
    for sample, own, above in placed:
        plain = own[: len(sample.clients)]
        there = plain >= 0
        rows = plain[there]
        facts[_CLIENTS, rows] += sample.clients[there]
        facts[_PAUSED, rows] = np.fmax(facts[_PAUSED, rows], sample.paused[there])
        channels = plain[len(sample.names) :]
        topics[channels[channels >= 0]] = above[channels >= 0]
    under = topics >= 0
    facts[_CLIENTS] += np.bincount(topics[under], facts[_CLIENTS, under], minlength=width)
    facts[_WAITING] = depths + np.bincount(topics[under], depths[under], minlength=width)
    facts[_CHANNELS] = np.bincount(topics[under], minlength=width)
    return facts.astype(np.float32)
