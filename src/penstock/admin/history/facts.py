"""Facts of topics and channels as they are now, shown but not kept: consumers, pauses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.admin.history.node_rows import NodeRows
from penstock.admin.history.sample import Sample

FACTS: Final = ("clients", "paused", "channels", "waiting", "partial")
"""Consumers; 1 where a node has it paused; channels of a topic; its depth and its channels' depths;
nodes that do not answer and whose last figures are in the depth.

Of the cluster the consumers and channels of all topics. Zeros where they mean nothing, but the
consumers of groups are NaN where they are not told.
"""
_CLIENTS, _PAUSED, _CHANNELS, _WAITING, _PARTIAL = range(len(FACTS))


def facts_of(
    placed: Iterable[tuple[Sample, NodeRows]],
    away: Iterable[NodeRows],
    depths: NDArray[np.float64],
    partial: NDArray[np.float64],
    cluster: int | None = None,
) -> NDArray[np.float32]:
    """A column for each row; ``depths`` are theirs. A topic's consumers are those of its channels.

    ``away`` are the places of nodes that do not answer, ``cluster`` is the row of the cluster.
    """
    width = len(depths)
    facts = np.zeros((len(FACTS), width))
    topics = np.full(width, -1)
    for sample, places in placed:
        columns, rows = places.plain
        facts[_CLIENTS, rows] += sample.clients[columns]
        facts[_PAUSED, rows] = np.fmax(facts[_PAUSED, rows], sample.paused[columns])
        columns, rows = places.groups
        facts[_CLIENTS, rows] += sample.groups.clients[columns]
        columns, rows = places.channels
        topics[rows] = places.above[columns]
    for places in away:
        columns, rows = places.channels
        topics[rows] = places.above[columns]
    under = (topics >= 0) & ~np.isnan(depths)
    facts[_CLIENTS] += np.bincount(topics[under], facts[_CLIENTS, under], minlength=width)
    facts[_WAITING] = depths + np.bincount(topics[under], depths[under], minlength=width)
    facts[_PARTIAL] = partial
    facts[_CHANNELS] = np.bincount(topics[under], minlength=width)
    if cluster is not None:
        facts[_CLIENTS, cluster] = facts[_CLIENTS, under].sum()
        facts[_CHANNELS, cluster] = under.sum()
    return facts.astype(np.float32)
