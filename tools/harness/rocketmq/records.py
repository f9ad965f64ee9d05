"""Stored messages for tests."""

from __future__ import annotations

from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage

HOST = Host(bytes((127, 0, 0, 1)), 10911)


def stored(
    topic: str = "T",
    body: bytes = b"x",
    queue: int = 0,
    offset: int = 0,
    times: int = 0,
    **more: str,
) -> StoredMessage:
    """One record; ``more`` are its properties."""
    return StoredMessage(topic, body, queue, offset, 1000 + offset, HOST, HOST, 5000, 6000,
                         properties.join(more), reconsume_times=times)  # fmt: skip


def received(
    topic: str = "T", body: bytes = b"x", queue: int = 0, offset: int = 0, **more: str
) -> Received:
    """One message of broker a."""
    return Received(stored(topic, body, queue, offset, 0, **more), "a")
