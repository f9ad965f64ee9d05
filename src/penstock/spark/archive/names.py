"""Names of an archive's files: each says whose messages it holds, and which.

``events@10.0.0.5_4151.0.0a61b2c3d4e5f607.00000000000000000000-00000000000000250000.parquet`` holds
all messages of topic ``events`` on node ``10.0.0.5:4151``, queue 0, of the log with this id
(``core.ids``), from offset 0 up to 250,000, which is not included. So the names are the archive's
only book: what is there is not written again, whatever planned it. Engines pass over names that
begin with a dot or ``_``, so before such a topic stands ``~``, which no topic begins with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from penstock.core.ids import fork, is_same, log_of

_NAME: Final = re.compile(
    r"~?(?P<topic>[^@]+)@(?P<node>.*)\.(?P<queue>\d+)"
    r"\.(?P<log>[0-9a-f]{16}(?:[-~][0-9a-f]{1,16}\.[0-9a-f]{1,16})*)"
    r"\.(?P<first>\d{20})-(?P<last>\d{20})(?P<ending>\.[a-z][a-z.]*)"
)
HIDDEN: Final = (".", "_")
"""The first characters of names that readers of a folder pass over."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
# File systems take 255 bytes; the id of a log of many epochs is long.
_NODE_MAX: Final = 60


class FileName(NamedTuple):
    """The name of a file with the messages ``first`` to ``last`` (not included) of a log."""

    topic: str
    node: str
    queue: int
    log: str
    first: int
    last: int
    ending: str

    def __str__(self) -> str:
        node = _UNSAFE.sub("_", self.node)[:_NODE_MAX]
        shown = "~" if self.topic.startswith(HIDDEN) else ""
        return (
            f"{shown}{self.topic}@{node}.{self.queue}.{self.log}"
            f".{self.first:020}-{self.last:020}{self.ending}"
        )

    @classmethod
    def read(cls, name: str) -> Self | None:
        """The name of a file of ours; None for any other."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        topic, node, queue, log, first, last, ending = found.groups()
        return cls(topic, node, int(queue), log, int(first), int(last), ending)

    def goes_on_in(self, other: FileName) -> bool:
        """True if the other file holds the messages behind those of this one."""
        return self[:4] == other[:4] and (self.last, self.ending) == (other.first, other.ending)


class Holdings:
    """The ranges of offsets that an archive holds, by the names of its files."""

    def __init__(self, names: Iterable[FileName] = ()) -> None:
        self._ranges: dict[str, dict[str, list[tuple[int, int]]]] = {}
        for name in sorted(names, key=lambda each: (each.first, each.last)):
            ranges = self._ranges.setdefault(log_of(name.log), {}).setdefault(name.log, [])
            if ranges and name.first <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(ranges[-1][1], name.last))
            else:
                ranges.append((name.first, name.last))

    def missing(self, log: str, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of a range of this log that the archive does not hold, ascending."""
        left, at = [], first
        for lower, upper in self._held(log):
            if upper <= at:
                continue
            if lower >= last:
                break
            if lower > at:
                left.append((at, lower))
            at = upper
        if at < last:
            left.append((at, last))
        return left

    def behind(self, log: str, offset: int) -> int:
        """The first offset from this one on that the archive does not hold."""
        for lower, upper in self._held(log):
            if lower > offset:
                break
            offset = max(offset, upper)
        return offset

    def _held(self, log: str) -> list[tuple[int, int]]:
        """The ranges of this life of a log, and of others up to where they part from it."""
        held = []
        for other, ranges in self._ranges.get(log_of(log), {}).items():
            assert is_same(log, other)
            parted = fork(log, other)
            for lower, upper in ranges:
                end = upper if parted is None else min(upper, parted.first)
                if lower < end:
                    held.append((lower, end))
        return sorted(held)
