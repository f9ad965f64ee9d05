"""The messages of a log's batches, as programs outside the broker see them. Needs numpy."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import structs

from penstock.broker.dead_letters import Origins, decode_origins
from penstock.core.ids import format_id
from penstock.core.moments import rfc3339
from penstock.nsq.page import Origin
from penstock.nsq.protocol.translation import bodies
from penstock.storage.batch import Batch


class Stored(NamedTuple):
    """One message of the log; ``timestamp_ns`` (wall clock) is when it was published there."""

    offset: int
    id: str
    timestamp_ns: int
    body: bytes
    origin: Origin | None = None


class StoredRange(NamedTuple):
    """The messages at offsets ``[first, next)``, all of one batch."""

    batch: Batch
    first: int
    next: int

    def bodies(self) -> list[bytes]:
        """The bodies, in order."""
        return bodies(self.batch, self.first, self.next)

    def messages(self) -> Iterator[Stored]:
        """Iterate over the messages."""
        batch = self.batch
        base = batch.first_id - batch.first_offset
        origins = decode_origins(batch.note)
        for offset, body in enumerate(self.bodies(), self.first):
            origin = _origin(batch, origins, offset) if origins is not None else None
            identifier = format_id(base + offset).decode()
            yield Stored(offset, identifier, batch.timestamp_ns, body, origin)


def origin_of(batch: Batch) -> tuple[str, str]:
    """The topic and channel that a batch of dead letters came from; empty for other messages."""
    origins = decode_origins(batch.note)
    return (origins.topic, origins.channel) if origins is not None else ("", "")


def as_object(message: Stored) -> dict[str, Any]:
    """A message as JSON has it; a body that is not UTF-8 is in base64."""
    shown: dict[str, Any] = {
        "offset": message.offset,
        "id": message.id,
        "time": rfc3339(message.timestamp_ns),
        "timestamp_ns": message.timestamp_ns,
    }
    if message.origin is not None:
        shown["origin"] = structs.asdict(message.origin)
    try:
        shown["body"] = message.body.decode()
    except UnicodeDecodeError:
        shown["body_base64"] = base64.b64encode(message.body).decode()
    return shown


def _origin(batch: Batch, origins: Origins, offset: int) -> Origin:
    place = offset - batch.first_offset
    return Origin(
        origins.topic,
        origins.channel,
        format_id(origins.ids[place]).decode(),
        origins.attempts[place],
        batch.timestamp_ns,
    )
