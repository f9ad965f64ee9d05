"""What is told of groups can be shown as it is."""

from __future__ import annotations

import msgspec

from penstock.broker.group_figures import ConsumerGroup, GroupMember, ProducerGroup


def test_as_json() -> None:
    member = GroupMember("id", "127.0.0.1:5", "JAVA", 409)
    group = ConsumerGroup("G", "CLUSTERING", [member], {0: 5}, 2, 1.5)
    data = msgspec.json.encode([group, ProducerGroup("PG", [member])])
    shown = {"client_id": "id", "address": "127.0.0.1:5", "language": "JAVA", "version": 409}
    assert msgspec.json.decode(data) == [
        {"name": "G", "model": "CLUSTERING", "members": [shown], "committed": {"0": 5}, "lag": 2,
         "rate": 1.5},
        {"name": "PG", "members": [shown]},
    ]  # fmt: skip
