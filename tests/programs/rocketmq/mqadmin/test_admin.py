"""Questions that sub-commands have in common."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.errors import CommandFailed, Refused
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer
from tools.harness.ports import unused_address


def test_without_name_servers_only_brokers_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    admin = Admin()
    with pytest.raises(CommandFailed, match="give it with -n host:9876, or set NAMESRV_ADDR"):
        admin.clusters()
    address = unused_address()
    with pytest.raises(NotConnected, match=f"connect to {address} failed"):
        admin.ask(address, Code.GET_BROKER_CONFIG)
    admin.close()


def test_the_name_servers_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    admin = Admin()
    assert admin.name_servers == ["a:1", "b:2"]
    admin.close()


def test_a_group_without_members_is_offline() -> None:
    admin = FakeAdmin({Code.GET_CONSUMER_CONNECTION_LIST: answer({"connectionSet": []})})
    with pytest.raises(Refused, match="CODE: 206  DESC: Not found the consumer group connection"):
        admin.connections("G")
    assert admin.fields(Code.GET_ROUTEINFO_BY_TOPIC)[0]["topic"] == "%RETRY%G"


def test_topics_and_figures() -> None:
    admin = FakeAdmin(
        {
            Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: answer({"topicList": ["b", "a"]}),
            Code.GET_BROKER_RUNTIME_INFO: answer({"table": {"putTps": 1}}),
            Code.QUERY_TOPIC_CONSUME_BY_WHO: answer({"groupList": ["h", "g"]}),
        }
    )
    assert admin.topics() == ["a", "b"]
    assert admin.runtime_info(BROKER) == {"putTps": "1"}
    assert admin.groups_of("T") == ["g", "h"]


def test_an_answer_that_is_no_object_is_refused() -> None:
    admin = FakeAdmin({Code.GET_BROKER_RUNTIME_INFO: answer([1])})
    with pytest.raises(CommandFailed, match="no JSON object"):
        admin.runtime_info(BROKER)
