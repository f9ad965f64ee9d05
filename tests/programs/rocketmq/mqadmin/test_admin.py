"""Questions that sub-commands have in common."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import FakeAdmin, answer
from tools.harness.ports import unused_address


def test_without_name_servers_only_brokers_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    admin = Admin()
    with pytest.raises(CommandFailed, match="give it with -n host:9876, or set NAMESRV_ADDR"):
        admin.do(admin.clusters())
    address = unused_address()
    with pytest.raises(NotConnected, match=f"connect to {address} failed"):
        admin.do(admin.ask(address, Code.GET_BROKER_CONFIG))
    admin.close()


def test_the_name_servers_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    admin = Admin()
    assert admin.name_servers == ["a:1", "b:2"]
    admin.close()


def test_a_group_without_members_is_offline() -> None:
    admin = FakeAdmin({Code.GET_CONSUMER_CONNECTION_LIST: answer({"connectionSet": []})})
    with pytest.raises(Refused, match="CODE: 206  DESC: Not found the consumer group connection"):
        admin.do(admin.connections("G"))
    assert admin.fields(Code.GET_ROUTEINFO_BY_TOPIC)[0]["topic"] == "%RETRY%G"


def test_the_groups_of_a_topic_are_those_of_its_first_broker() -> None:
    admin = FakeAdmin({Code.QUERY_TOPIC_CONSUME_BY_WHO: answer({"groupList": ["h", "g"]})})
    assert admin.do(admin.groups_of("T")) == ["g", "h"]
