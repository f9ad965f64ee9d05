from __future__ import annotations

from pathlib import Path

from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.state.files import State
from penstock.rocketmq.broker.tables import Tables
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.files.disk import OsDisk
from tests.unit.rocketmq.broker.conftest import BROKER_ADDRESS


def test_a_change_of_topics_is_written_and_told(
    controller: Controller, tmp_path: Path, settings: BrokerSettings
) -> None:
    told: list[int] = []
    controller.topics_listeners.append(lambda: told.append(len(controller.topics.configs)))
    controller.topics.put(TopicConfig("T", 4, 4), controller.now_ms)
    controller.topics_changed()
    assert told == [len(controller.topics.configs)]
    again = Tables(
        settings, controller.node, State(OsDisk(), str(tmp_path / "config")), BROKER_ADDRESS
    )
    assert again.topics.get("T") == controller.topics.get("T")
    assert again.topics.version == controller.topics.version
