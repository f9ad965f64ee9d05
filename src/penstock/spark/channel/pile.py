"""Messages that wait for their file, as they came; then as an Arrow record batch."""

from __future__ import annotations

import pyarrow as pa

from penstock.nsq.client.consume.delivery import Delivery
from penstock.spark.read.decode import TYPES

FILED = ("body", "id", "timestamp", "attempts", "node")
"""The columns of a staged file; the topic is the same in all of them."""
SCHEMA = pa.schema([pa.field(name, TYPES[name]) for name in FILED])


class Pile:
    """Deliveries that are not answered yet."""

    def __init__(self) -> None:
        self._deliveries: list[Delivery] = []
        self.rows = 0
        self.nbytes = 0
        """Bytes of frames, which is what they take of memory."""
        self.since_ns = 0
        """The time at which the first of the deliveries came."""

    def add(self, delivery: Delivery, now_ns: int) -> None:
        """Add deliveries that have come."""
        if not self._deliveries:
            self.since_ns = now_ns
        self._deliveries.append(delivery)
        self.rows += len(delivery)
        self.nbytes += len(delivery.block.frames())

    def take(self) -> list[Delivery]:
        """All of them, but for those whose connection is gone: they come again over another."""
        taken = [delivery for delivery in self._deliveries if delivery.is_alive]
        self._deliveries.clear()
        self.rows = self.nbytes = 0
        return taken

    def give_back(self) -> None:
        """Let others have them, at once and without a backoff."""
        requeue(self.take())


def requeue(deliveries: list[Delivery]) -> None:
    """Give these back, which is nobody's failure."""
    for delivery in deliveries:
        delivery.requeue(0, backoff=False)


def record_batch(deliveries: list[Delivery]) -> pa.RecordBatch:
    """The messages of at least one delivery, in their order."""
    times: list[int] = []
    attempts: list[int] = []
    ids: list[str] = []
    bodies: list[bytes] = []
    nodes: list[str] = []
    for delivery in deliveries:
        came = zip(*delivery.block.fields(), strict=True)
        some_times, some_attempts, some_ids, some_bodies = map(list, came)
        times += [time // 1000 for time in some_times]
        attempts += some_attempts
        ids += [identifier.decode("ascii", "replace") for identifier in some_ids]
        bodies += some_bodies
        nodes += [delivery.address] * len(delivery)
    arrays = [
        pa.array(bodies, TYPES["body"]),
        pa.array(ids, TYPES["id"]),
        pa.array(times, pa.int64()).cast(TYPES["timestamp"]),
        pa.array(attempts, TYPES["attempts"]),
        pa.array(nodes, TYPES["node"]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
