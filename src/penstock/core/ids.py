"""Message ids that are offsets in disguise.

An NSQ message id is 16 hex digits. Ours is ``base + offset``: the base belongs to one queue of
one topic on one node, so an id leads to its place in the log by a subtraction, with no table of
messages. The base, as the id of offset 0, is also the queue's creation id: readers that remember
offsets tell by it that a topic was deleted and created again.

The 63 usable bits are ``node (10) | microseconds since 2020 at the queue's creation (53)``. Offsets
advance more slowly than microseconds, so a topic that is deleted and created again does not repeat
the ids it gave out before. If the clock was set back in between, ``storage.taken_ids`` sees to it.

The id of a log, as readers that keep offsets keep it beside them, is its base in hex. A log that
was put back to what it was before has other messages behind that place from then on, at offsets
that were given out before. So it begins an epoch there, which its id names, too:
``0a61b2c3d4e5f607-5dc.9f3a77c1`` goes on at offset 0x5dc with what came after it was restored from
a backup; ``~`` in place of ``-`` stands for a copy that became primary. Ids of one log with
different epochs have the same messages up to where the first of these began.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

# The bounds of --node-id (NSQ spec 3.15): 10 bits.
NODE_ID_MAX = 1023
# Microseconds until the year 2305. With the node's 10 bits an id has 63 and stays positive.
_COUNTER_BITS = 53
COUNTER_MAX = (1 << _COUNTER_BITS) - 1
_EPOCH_US = 1_577_836_800_000_000  # 2020-01-01T00:00:00Z
_RESTORED: Final = "-"
_PROMOTED: Final = "~"
_EPOCH: Final = re.compile(r"([-~])([0-9a-f]{1,16})\.([0-9a-f]{1,16})")


def id_base(node_id: int, wall_ns: int, least: int = 0) -> int:
    """The id of offset 0 of a queue created now on this node.

    ``node_id`` is 0..1023 (``--node-id``), ``wall_ns`` the wall clock in nanoseconds; the counter
    of the id is ``least`` or more.
    """
    if not 0 <= node_id <= NODE_ID_MAX:
        raise ValueError(f"node id {node_id} is outside 0..{NODE_ID_MAX}")
    microseconds = max(least, wall_ns // 1000 - _EPOCH_US)
    return node_id << _COUNTER_BITS | (microseconds & COUNTER_MAX)


def counter(message_id: int) -> int:
    """An id without its node."""
    return message_id & COUNTER_MAX


def format_id(message_id: int) -> bytes:
    """The id as it stands in a message frame: 16 lower-case hex digits."""
    return b"%016x" % message_id


class Epoch(NamedTuple):
    """A life of a log, from the offset ``first`` on; ``mark`` is a random name, in hex.

    With ``restored``, messages that nobody had read may be lost, which were behind that offset.
    """

    first: int
    mark: str
    restored: bool


class Fork(NamedTuple):
    """The offset at which two logs begin to differ."""

    first: int
    restored: bool


def format_log_id(id_base: int, epochs: Iterable[Epoch] = ()) -> str:
    """The id of a log with these epochs, the oldest first."""
    told = (
        f"{_RESTORED if each.restored else _PROMOTED}{each.first:x}.{each.mark}" for each in epochs
    )
    return format_id(id_base).decode() + "".join(told)


def log_of(log_id: str) -> str:
    """The id without epochs."""
    return re.split("[-~]", log_id, maxsplit=1)[0]


def epochs_of(log_id: str) -> list[Epoch]:
    """The epochs that an id names, the oldest first."""
    return [
        Epoch(int(first, 16), mark, kind == _RESTORED)
        for kind, first, mark in _EPOCH.findall(log_id)
    ]


def is_another(log_id: str, other: str) -> bool:
    """True if these are ids of different logs; a log without an id may be any."""
    return bool(log_id and other and log_of(log_id) != log_of(other))


def is_same(log_id: str, other: str) -> bool:
    """True if these are ids of one log, in whatever epochs."""
    return bool(log_id and other and log_of(log_id) == log_of(other))


def fork(log_id: str, other: str) -> Fork | None:
    """The place at which two ids of one log part; None if they do not."""
    if not is_same(log_id, other):
        return None
    one, two = epochs_of(log_id), epochs_of(other)
    _align(one, two)
    _align(two, one)
    while one and two and one[0].mark == two[0].mark:
        del one[0], two[0]
    parted = one + two
    if not parted:
        return None
    return Fork(min(each.first for each in parted), any(each.restored for each in parted))


def _align(one: list[Epoch], two: list[Epoch]) -> None:
    """Leave out of ``two`` what is before the first epoch of ``one``, which has forgotten it."""
    marks = [each.mark for each in two]
    if one and one[0].mark in marks:
        del two[: marks.index(one[0].mark)]
