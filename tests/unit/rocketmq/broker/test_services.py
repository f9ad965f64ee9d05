from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.state.files import TOPICS, StateFiles
from penstock.rocketmq.broker.state.topics import TopicTable
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.storage.files.disk import OsDisk
from tests.unit.rocketmq.broker.conftest import BROKER_ADDRESS, fake_node


def made(settings: BrokerSettings, path: Path) -> Services:
    path.mkdir(exist_ok=True)
    state = StateFiles(OsDisk(), str(path / "config"))
    return Services(settings, fake_node(path), state, BROKER_ADDRESS)


def test_name_servers_are_told_the_port_of_the_address(services: Services) -> None:
    assert services.name_servers.introduction.port == BROKER_ADDRESS.port


@pytest.mark.parametrize("wanted", [True, False])
def test_access_rules_are_there_where_they_are_wanted(
    settings: BrokerSettings, tmp_path: Path, wanted: bool
) -> None:
    settings.acl_enable = wanted
    settings.acl_directory = str(tmp_path)
    (tmp_path / "plain_acl.yml").write_text("accounts: []\n")
    services = made(settings, tmp_path)
    assert (services.acl is not None) is wanted
    services.node.broker.close()


def test_without_index_nothing_is_told_of_keys(settings: BrokerSettings, tmp_path: Path) -> None:
    settings.message_index_enable = False
    services = made(settings, tmp_path)
    assert services.keys.appended not in services.store.on_append
    services.node.broker.close()


async def test_name_servers_say_which_topics_are_ordered(
    settings: BrokerSettings, tmp_path: Path
) -> None:
    services = made(settings, tmp_path)
    config = services.topics.make_inner("T", 1, services.now_ms)
    told: list[bool] = []
    services.topics.listeners.append(lambda: told.append(config.order))
    services._set_order({"T"})
    services._set_order({"T"})
    assert told == [True]
    await services.name_servers.registered()  # without name servers there is nothing to wait for
    services.node.broker.close()


def test_a_damaged_table_is_named(settings: BrokerSettings, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "messageRequestMode.json").write_text("[")
    with pytest.raises(ConfigError, match=r"messageRequestMode\.json is damaged"):
        made(settings, tmp_path)


def test_a_change_of_topics_is_written_and_then_told(
    services: Services, settings: BrokerSettings, tmp_path: Path
) -> None:
    told: list[int] = []
    services.topics.listeners.append(lambda: told.append(len(services.topics.configs)))
    services.topics.put(TopicConfig("T", 4, 4), services.now_ms)
    services.topics.changed()
    assert told == [len(services.topics.configs)]
    again = TopicTable()
    StateFiles(OsDisk(), str(tmp_path / "config")).add(TOPICS, again.as_json, again.load)
    assert again == services.topics
