"""Sharing of queues among a group's members: each computes its part from the same two lists.

The functions do what Java's strategies of the same names do, so that members in Java and in Python
agree; the lists are sorted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from hashlib import md5
from typing import Final, TypeAlias

from penstock.rocketmq.protocol.message_queue import MessageQueue

Allocate: TypeAlias = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]
"""The queues of this member, of all queues and all members."""
VIRTUAL_NODES: Final = 10


def averagely(
    member: str, queues: Sequence[MessageQueue], members: Sequence[str]
) -> list[MessageQueue]:
    """A block of neighbours for each; the first members get one more where it does not come out."""
    index, count = members.index(member), len(members)
    size, more = divmod(len(queues), count)
    start = index * size + min(index, more)
    return list(queues[start : start + size + (index < more)])


def by_circle(
    member: str, queues: Sequence[MessageQueue], members: Sequence[str]
) -> list[MessageQueue]:
    """Each in turn gets the next queue."""
    return list(queues[members.index(member) :: len(members)])


def consistently(
    member: str, queues: Sequence[MessageQueue], members: Sequence[str]
) -> list[MessageQueue]:
    """Share by consistent hashing: when members come and go, few queues change hands."""
    ring = dict[int, str]()
    for each in members:
        for number in range(VIRTUAL_NODES):
            ring[_hash(f"{each}-{number}")] = each
    places = sorted(ring)

    def owner(queue: MessageQueue) -> str:
        place = bisect_left(places, _hash(_java_text(queue)))
        return ring[places[place % len(places)]]

    return [queue for queue in queues if owner(queue) == member]


def by_config(*queues: MessageQueue) -> Allocate:
    """The queues that were configured, whoever else is there."""
    return lambda member, every, members: list(queues)


def by_machine_room(*rooms: str) -> Allocate:
    """Queues of brokers that are called ``room@name`` with one of these rooms, in blocks."""

    def allocate(
        member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        found = [each for each in queues if _room(each.brokerName) in rooms]
        index, size = members.index(member), len(found) // len(members)
        own = found[size * index : size * (index + 1)]
        rest = size * len(members) + index
        return own + found[rest : rest + 1]

    return allocate


def near_by(
    room_of_broker: Callable[[str], str],
    room_of_member: Callable[[str], str],
    inner: Allocate = averagely,
) -> Allocate:
    """Queues of a room for the members in it; those of rooms without members for all."""

    def allocate(
        member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        rooms = sorted({room_of_broker(queue.brokerName) for queue in queues})
        own, found = room_of_member(member), list[MessageQueue]()
        rooms.sort(key=lambda room: room != own)
        for room in rooms:
            there = [queue for queue in queues if room_of_broker(queue.brokerName) == room]
            near = [each for each in members if room_of_member(each) == room]
            if room == own or not near:
                found += inner(member, there, near or members)
        return found

    return allocate


STRATEGIES: Final[dict[str, Allocate]] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": by_circle,
    "CONSISTENT_HASH": consistently,
}


def share_of(
    allocate: Allocate, member: str, queues: Collection[MessageQueue], members: Collection[str]
) -> list[MessageQueue]:
    """The queues of this member; none for one that the broker does not know yet."""
    if member not in members or not queues:
        return []
    in_order = sorted(queues, key=lambda each: (each.topic, each.brokerName, each.queueId))
    return allocate(member, in_order, sorted(members))


def _room(broker: str) -> str:
    room, at, name = broker.partition("@")
    return room if at and name and "@" not in name else ""


def _hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4])


def _java_text(queue: MessageQueue) -> str:
    topic, broker, number = queue.topic, queue.brokerName, queue.queueId
    return f"MessageQueue [topic={topic}, brokerName={broker}, queueId={number}]"
