"""The messages that a node's log holds, stretch by stretch. Needs numpy; import it late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.broker.dead_letters import Origins, decode_origins
from penstock.core.errors import PenstockError
from penstock.core.ids import format_id
from penstock.nsq.client.log import LogClient, LogError, OffsetOutOfRange
from penstock.nsq.protocol.translation import bodies
from penstock.storage.batch import Batch, CorruptBatchError


class OffsetGone(PenstockError):
    """Retention has let go of what was to be read."""


class NoLog(PenstockError):
    """The node is an nsqd without a log to read."""


class Origin(NamedTuple):
    """Where a dead letter came from; ``dead_since`` is wall-clock ns."""

    topic: str
    channel: str
    id: str
    attempts: int
    dead_since: int


class Stored(NamedTuple):
    """One message of the log; ``timestamp_ns`` (wall clock) is when it was published there."""

    offset: int
    id: str
    timestamp_ns: int
    body: bytes
    origin: Origin | None = None


class Stretch(NamedTuple):
    """The messages at offsets ``[first, next)``, all of one batch."""

    batch: Batch
    first: int
    next: int

    def bodies(self) -> list[bytes]:
        """Their bodies, in order."""
        return bodies(self.batch, self.first, self.next)

    def messages(self) -> Iterator[Stored]:
        """They one by one."""
        batch = self.batch
        base = batch.first_id - batch.first_offset
        origins = decode_origins(batch.note)
        for offset, body in enumerate(self.bodies(), self.first):
            origin = _origin(batch, origins, offset) if origins is not None else None
            identifier = format_id(base + offset).decode()
            yield Stored(offset, identifier, batch.timestamp_ns, body, origin)


def stretches(
    client: LogClient, topic: str, first: int, end: int, *, queue: int = 0
) -> Iterator[Stretch]:
    """What the log holds of offsets ``[first, end)``; what a damaged disk has lost is left out.

    Raises OffsetGone, NoLog, and what ``LogClient.fetch`` does.
    """
    while first < end:
        try:
            fetched = client.fetch(topic, first, queue=queue)
        except OffsetOutOfRange as error:
            raise OffsetGone(
                f"offset {first} of topic {topic!r} is gone from {client.node}, "
                f"which holds {error.start} to {error.end - 1}"
            ) from error
        except LogError as error:
            raise no_log(error) from error
        read = first
        for batch in _batches(fetched.data, topic, client.node):
            low, high = max(first, batch.first_offset), min(end, batch.next_offset)
            read = max(read, batch.next_offset)
            if low < high:
                yield Stretch(batch, low, high)
        if read == first:
            return
        first = read


def no_log(error: LogError) -> PenstockError:
    """An error for users: NoLog for another nsqd, else the error as it is."""
    if error.status == 404 and error.reason == "NOT_FOUND":
        return NoLog(f"{error.node} is no Penstock node: it keeps no log that can be read")
    return error


def _batches(data: bytes, topic: str, node: str) -> Iterator[Batch]:
    from penstock.storage.batch import iter_batches

    try:
        yield from iter_batches(data)
    except CorruptBatchError as error:
        raise PenstockError(f"{node} sent damaged data of topic {topic!r}: {error}") from error


def _origin(batch: Batch, origins: Origins, offset: int) -> Origin:
    place = offset - batch.first_offset
    return Origin(
        origins.topic,
        origins.channel,
        format_id(origins.ids[place]).decode(),
        origins.attempts[place],
        batch.timestamp_ns,
    )
