"""Messages of several nodes as one page, in the order in which they were published."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from penstock.nsq.page import Message


class Part(NamedTuple):
    """A node's share of a page: messages that follow each other in its log, the oldest first.

    Reading goes on from ``at``; once all of them are taken, from ``edge``. ``is_all``: nothing lies
    beyond that.
    """

    node: str
    at: int
    messages: Sequence[Message]
    edge: int
    is_all: bool


class Merged(NamedTuple):
    """A page, the oldest message first, and the offset on each node from which reading goes on."""

    messages: list[tuple[str, Message]]
    at: dict[str, int]


def merge(parts: Sequence[Part], limit: int, *, back: bool) -> Merged:
    """The next ``limit`` messages of all parts by time or, with ``back``, the ones before.

    The page ends early where a node's messages run out and more lie beyond: they may be next.
    """
    sign = -1 if back else 1
    lists = [part.messages[::sign] for part in parts]
    at = {part.node: part.at if part.messages else part.edge for part in parts}
    taken: list[tuple[str, Message]] = []
    heap = [(sign * each[0].timestamp, order, 0) for order, each in enumerate(lists) if each]
    heapq.heapify(heap)
    is_open = any(not part.messages and not part.is_all for part in parts)
    while heap and len(taken) < limit and not is_open:
        _, order, place = heapq.heappop(heap)
        part, message = parts[order], lists[order][place]
        taken.append((part.node, message))
        at[part.node] = message.offset if back else message.offset + 1
        if place + 1 < len(lists[order]):
            heapq.heappush(heap, (sign * lists[order][place + 1].timestamp, order, place + 1))
        else:
            at[part.node], is_open = part.edge, not part.is_all
    return Merged(taken[::sign], at)
