"""A naive encoder and a naive reader, to check the quick ones against."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from msgspec.structs import astuple

from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.events import Event, Finish, Publish, State


def naive_frames(bodies: Iterable[bytes], first_id: int, timestamp_ns: int) -> list[bytes]:
    """One message frame at a time, straight from the table of the protocol."""
    frames = []
    for identifier, body in enumerate(bodies, first_id):
        data = struct.pack(">qH", timestamp_ns, 1) + f"{identifier:016x}".encode() + body
        frames.append(struct.pack(">II", len(data) + 4, 2) + data)
    return frames


def plain(event: Event) -> list[tuple[Any, ...]]:
    """An event in comparable form; a Finish as one entry an id, since reads may split it."""
    if isinstance(event, Finish):
        numbers = [("FIN", b"%016x" % number) for number in map(int, event.ids)]
        return numbers + [("FIN", raw) for raw in event.raw]
    if isinstance(event, Publish):
        return [(event.command, event.topic, event.delay_ns, event.bodies.to_list())]
    return [(type(event).__name__, *astuple(event))]


def read_all(
    pieces: Iterable[bytes], state: State = State.SUBSCRIBED, reader: CommandReader | None = None
) -> list[tuple[Any, ...]]:
    """All events of a stream that comes in these pieces, end of stream included."""
    reader = reader or CommandReader()
    reader.state = state
    found = []
    for piece in pieces:
        reader.receive_data(piece)
        while (event := reader.next_event()) is not None:
            found += plain(event)
    failure = reader.eof()
    return found + (plain(failure) if failure is not None else [])


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The data cut at these places."""
    edges = [0, *sorted(place for place in set(places) if 0 < place < len(data)), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]
