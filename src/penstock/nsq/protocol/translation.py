"""NSQ's part of the translation between dialects (``broker.dialects``)."""

from __future__ import annotations

from penstock.broker.dialects import frames
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.frames import BODY_AT
from penstock.storage.batch import Batch


def bodies(batch: Batch, first: int, next_: int) -> list[bytes]:
    """The bodies of log offsets ``[first, next_)`` of a batch of NSQ message frames."""
    return [frame[BODY_AT:] for frame in frames(batch, first, next_)]


def batch_of(source: Batch, bodies: list[bytes]) -> Batch:
    """A batch of NSQ message frames with these bodies in the place of another dialect's batch.

    Queue, offsets, ids, deferral and time are those of ``source``; the time is when it was stored.
    """
    records = Bodies.from_list(bodies)
    encoded, table = records.encode(source.first_id, source.timestamp_ns)
    return Batch.build(source.first_offset, source.first_id, source.timestamp_ns, source.count,
                       records.stride, [encoded], table=table, delay_ns=source.delay_ns,
                       queue=source.queue)  # fmt: skip
