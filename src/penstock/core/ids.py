"""Message ids that are offsets in disguise.

An NSQ message id is 16 hex digits. Ours is ``base + offset``: the base belongs to one queue of
one topic on one node, so an id leads to its place in the log by a subtraction, with no table of
messages. The base, as the id of offset 0, is also the queue's creation id: readers that remember
offsets tell by it that a topic was deleted and created again.

The 63 usable bits are ``node (10) | microseconds since 2020 at the queue's creation (53)``. Offsets
advance more slowly than microseconds, so a topic that is deleted and created again does not repeat
the ids it gave out before. If the clock was set back in between, ``storage.taken_ids`` sees to it.
"""

from __future__ import annotations

NODE_ID_MAX = 1023
_COUNTER_BITS = 53
COUNTER_MAX = (1 << _COUNTER_BITS) - 1
_EPOCH_US = 1_577_836_800_000_000  # 2020-01-01T00:00:00Z
ID_LENGTH = 16


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
