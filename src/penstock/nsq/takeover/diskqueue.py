"""The queue files of Go's nsqd, as text and bytes (NSQ spec 3.6); nothing is read here.

A queue ``<topic>`` or ``<topic>:<channel>`` (``;`` on Windows) has data files
``<queue>.diskqueue.<number>.dat`` and ``<queue>.diskqueue.meta.dat``, which says where reading and
writing stood at the last sync. What a data file holds is the matter of ``records``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.core.names import is_ephemeral, is_valid_name

# File numbers and positions are int64 in Go: 19 digits at most.
_FILE = re.compile(r"(?P<queue>.+)\.diskqueue\.(?P<part>meta|\d{6,19})\.dat", re.DOTALL)
_META = re.compile(rb"\s*(-?\d{1,19})\s+(\d{1,19}),(\d{1,19})\s+(\d{1,19}),(\d{1,19})\s*")


@dataclass(slots=True)
class QueueFiles:
    """The files of one queue. ``channel`` is None for the queue of a topic."""

    topic: str
    channel: str | None
    name: str
    numbers: list[int] = field(default_factory=list)
    has_meta: bool = False

    def data_name(self, number: int) -> str:
        """Name of a data file."""
        return f"{self.name}.diskqueue.{number:06d}.dat"

    @property
    def meta_name(self) -> str:
        """Name of the meta file."""
        return f"{self.name}.diskqueue.meta.dat"

    def names(self) -> list[str]:
        """Names of all files, the meta file first."""
        return [self.meta_name] * self.has_meta + [self.data_name(n) for n in self.numbers]


def find_queues(names: Iterable[str]) -> list[QueueFiles]:
    """The queues among the file names of a data path, sorted by name; other files are passed over.

    So are the ``.bad`` files that Go's nsqd has set aside.
    """
    found: dict[str, QueueFiles] = {}
    for name in sorted(names):
        match = _FILE.fullmatch(name)
        if match is None:
            continue
        queue, part = match["queue"], match["part"]
        files = found.get(queue) or _queue(queue)
        # Go writes no leading zeros beyond six digits: any other name is not a queue file.
        if files is None or (part != "meta" and files.data_name(int(part)) != name):
            continue
        found[queue] = files
        if part == "meta":
            files.has_meta = True
        else:
            files.numbers.append(int(part))
    for files in found.values():
        files.numbers.sort()
    return list(found.values())


def _queue(name: str) -> QueueFiles | None:
    topic, *channel = re.split("[:;]", name, maxsplit=1)
    if not all(is_valid_name(part) and not is_ephemeral(part) for part in (topic, *channel)):
        return None
    return QueueFiles(topic, channel[0] if channel else None, name)


class Meta(NamedTuple):
    """The content of a meta file; positions in bytes, as of the last sync of that nsqd."""

    depth: int
    read_file: int
    read_position: int
    write_file: int
    write_position: int


def parse_meta(data: bytes) -> Meta | None:
    """The content of a meta file; None when it is invalid, or says that reading is past writing."""
    match = _META.fullmatch(data)
    if match is None:
        return None
    meta = Meta(*map(int, match.groups()))
    return None if meta.read_file > meta.write_file else meta


class Piece(NamedTuple):
    """A data file to read from a position to its end."""

    number: int
    position: int


def pieces(files: QueueFiles, meta: Meta | None) -> list[Piece]:
    """The pieces of a queue that are to be read: everything behind the read position.

    Like Go's nsqd this salvages what was written behind the last synced position. It also reads
    what Go's leaves behind: files without a meta file, as a kill before the first sync makes them,
    and files behind the write position. Files before the read position were consumed.
    """
    if meta is None:
        return [Piece(number, 0) for number in files.numbers]
    return [
        Piece(number, meta.read_position if number == meta.read_file else 0)
        for number in files.numbers
        if number >= meta.read_file
    ]


def missing(files: QueueFiles, meta: Meta | None) -> list[tuple[int, int]]:
    """Data files that should be there and are not, as ranges of numbers, both ends included."""
    last = files.numbers[-1] if files.numbers else -1
    expected = files.numbers[0] if files.numbers else 0
    if meta is not None:
        expected = meta.read_file
        if meta[1:3] != meta[3:5]:  # there is something to be read
            last = max(last, meta.write_file if meta.write_position else meta.write_file - 1)
    found = []
    for number in [*(n for n in files.numbers if n >= expected), last + 1]:
        if number > expected:
            found.append((expected, number - 1))
        expected = number + 1
    return found
