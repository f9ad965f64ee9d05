"""The bounds of a topic's log on a node, as its log API reports them (docs/log-api.md)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from penstock.cluster.exchange import target
from penstock.cluster.http_client import HttpClient


class Bounds(Struct):
    """The offsets that a node's log holds: from ``start`` up to, not including, ``end``."""

    start: int
    end: int


class _Offsets(Struct):
    """The fields of a /log/offsets answer that are read."""

    queues: Annotated[list[Bounds], Meta(min_length=1)]


async def bounds_of(http: HttpClient, address: str, topic: str) -> Bounds:
    """The bounds of a topic's log on the node at ``address``. Raises UpstreamError."""
    told = await http.get(address, target("/log/offsets", topic=topic), _Offsets)
    return told.queues[0]
