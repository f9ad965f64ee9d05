from __future__ import annotations

from pathlib import Path

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.draft import Draft, Placed
from penstock.rocketmq.broker.node import Node
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.state import State
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.disk import OsDisk

from .conftest import BROKER_ADDRESS


def test_a_change_of_topics_is_written_and_told(
    node: Node, tmp_path: Path, settings: BrokerSettings
) -> None:
    told: list[int] = []
    node.topics_listeners.append(lambda: told.append(len(node.topics.configs)))
    node.topics.put(TopicConfig("T", 4, 4), node.now_ms)
    node.topics_changed()
    assert told == [len(node.topics.configs)]
    again = Node(settings, node.base, State(OsDisk(), str(tmp_path / "config")), BROKER_ADDRESS)
    assert again.topics.get("T") == node.topics.get("T")
    assert again.topics.version == node.topics.version


def test_a_message_with_a_delay_waits_elsewhere(node: Node) -> None:
    node.topics.put(TopicConfig("T", 1, 1), node.now_ms)
    placed: list[Placed] = []

    def done(places: list[Placed], error: StorageError | None) -> None:
        assert error is None
        placed.extend(places)

    node.publish((Draft("T", 0, b"now"),), done)
    node.publish((Draft("T", 0, b"later", "DELAY\x013\x02"),), done)
    assert node.store.bounds("T", 0) == (0, 1)
    assert node.store.bounds("SCHEDULE_TOPIC_XXXX", 2) == (0, 1)
    assert len(placed) == 2
