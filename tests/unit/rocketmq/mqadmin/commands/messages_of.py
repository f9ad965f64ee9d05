"""Stored messages for tests."""

from __future__ import annotations

from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER


def stored(properties: str = "", body: bytes = b"body", topic: str = "T") -> bytes:
    """The record of a message at offset 3 of queue 0."""
    host = Host.parse(BROKER)
    return encode(StoredMessage(topic, body, 0, 3, 9, host, host, 5, 6, properties))
