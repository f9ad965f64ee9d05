from __future__ import annotations

from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage


def test_a_copy_of_a_stored_message_has_all_but_its_place() -> None:
    born, stored_at = Host(bytes(4), 1), Host(bytes((127, 0, 0, 1)), 2)
    stored = StoredMessage(
        "T", b"body", 3, 4, 5, born, stored_at, 6, 7, "KEYS\x01k\x02", 8, 9, 10, 11
    )
    assert Draft.of(stored) == Draft("T", 3, b"body", "KEYS\x01k\x02", 8, 9, 6, born, 10, 11)
