"""The rows of the tables that the columns of a node's look go to.

A node's rows mostly follow one another, and are slices then, which numpy copies many times as fast
as what stands at given indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.admin.history.sample import Sample

Indices = NDArray[np.intp]
Some = slice | Indices


class ColumnRows(NamedTuple):
    """Columns of a look, and the rows that they go to, one each."""

    columns: Some
    rows: Some


def column_rows(rows: Indices) -> ColumnRows:
    """The columns that have a row; -1: none."""
    there = np.flatnonzero(rows >= 0)
    return ColumnRows(_run(there), _run(rows[there]))


def _run(indices: Indices) -> Some:
    if len(indices) and (np.diff(indices) == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


class NodeRows:
    """The rows of a node's topics, channels and groups; -1: no room for one."""

    def __init__(
        self, sample: Sample, parts: Sequence[int], own: Sequence[int], always: Sequence[int]
    ) -> None:
        """``parts`` are their rows as what they are on this node, ``own`` those of the sums;
        ``always`` those of the node and of the cluster, which are there without topics too.
        """
        self.part_rows, self.own_rows = np.array(parts, np.intp), np.array(own, np.intp)
        self.always = np.array([row for row in always if row >= 0], np.intp)
        self.topics = len(sample.names)
        counts = np.array([len(channels) for _, channels in sample.names], np.intp)
        self.figures = self.topics + int(counts.sum())
        """Topics and channels; groups come after them."""
        plain = self.own_rows[: self.figures]
        self.parts, self.own, self.plain = (
            column_rows(self.part_rows),
            column_rows(self.own_rows),
            column_rows(plain),
        )
        self.channels = column_rows(plain[self.topics :])
        """Columns are counted from the first channel."""
        self.groups = column_rows(self.own_rows[self.figures :])
        """Columns are counted from the first group."""
        self.above = np.repeat(plain[: self.topics], counts)
        """The sums of the channels' topics."""
        having = np.flatnonzero(counts > 0)
        self.heads = self.topics + (np.cumsum(counts) - counts)[having]
        """The columns of the first channels of topics that have some."""
        self.headed = column_rows(plain[having])
        """The sums of the topics with channels, each over the columns from its head to the next."""
