from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.rocketmq.broker.state.files import State
from penstock.rocketmq.broker.tables import Tables
from penstock.storage.files.disk import OsDisk
from tests.unit.rocketmq.broker.conftest import BROKER_ADDRESS, fake_node


def made(settings: BrokerSettings, path: Path) -> Controller:
    path.mkdir(exist_ok=True)
    state = State(OsDisk(), str(path / "config"))
    return Controller(settings, fake_node(path), state, BROKER_ADDRESS)


PARTS = (*Tables.__slots__, *Controller.__slots__)


def test_a_controller_is_whole_once_it_is_made(settings: BrokerSettings, tmp_path: Path) -> None:
    controller = made(settings, tmp_path)
    assert all(hasattr(controller, name) for name in PARTS)
    assert controller.name_servers.introduction.port == BROKER_ADDRESS.port
    controller.node.broker.close()


def test_no_other_module_can_add_a_part(controller: Controller) -> None:
    assert not hasattr(controller, "__dict__")


@pytest.mark.parametrize("wanted", [True, False])
def test_access_rules_are_there_where_they_are_wanted(
    settings: BrokerSettings, tmp_path: Path, wanted: bool
) -> None:
    settings.acl_enable = wanted
    settings.acl_directory = str(tmp_path)
    (tmp_path / "plain_acl.yml").write_text("accounts: []\n")
    controller = made(settings, tmp_path)
    assert (controller.acl is not None) is wanted
    controller.node.broker.close()


def test_without_index_nothing_is_told_of_keys(settings: BrokerSettings, tmp_path: Path) -> None:
    settings.message_index_enable = False
    controller = made(settings, tmp_path)
    assert controller.keys.appended not in controller.store.on_append
    controller.node.broker.close()


async def test_name_servers_say_which_topics_are_ordered(
    settings: BrokerSettings, tmp_path: Path
) -> None:
    controller = made(settings, tmp_path)
    config = controller.topics.make_inner("T", 1, controller.now_ms)
    told: list[bool] = []
    controller.topics_listeners.append(lambda: told.append(config.order))
    controller._set_order({"T"})
    controller._set_order({"T"})
    assert told == [True]
    await controller.registered()  # without name servers there is nothing to wait for
    controller.node.broker.close()


def test_a_damaged_table_is_named(settings: BrokerSettings, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "messageRequestMode.json").write_text("[")
    with pytest.raises(ConfigError, match=r"messageRequestMode\.json is damaged"):
        made(settings, tmp_path)
