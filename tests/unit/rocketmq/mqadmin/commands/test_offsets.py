from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.commands import offsets
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command, Language
from tests.unit.rocketmq.mqadmin.fake_admin import (
    BROKER,
    QUEUE,
    FakeAdmin,
    answer,
    in_json,
    printed,
)

ONLINE = answer({"offsetTable": {QUEUE: 7}})
STATS = answer(
    {"offsetTable": {QUEUE: {"brokerOffset": 9, "consumerOffset": 4, "lastTimestamp": 0}}}
)


class OnlineAdmin(FakeAdmin):
    """One whose broker resets with this answer."""

    def __init__(self, found: Command) -> None:
        super().__init__(
            {
                Code.GET_CONSUME_STATS: STATS, Code.GET_MAX_OFFSET: answer(offset=9),
                Code.SEARCH_OFFSET_BY_TIMESTAMP: answer(offset=6),
                Code.UPDATE_CONSUMER_OFFSET: answer(), Code.INVOKE_BROKER_TO_RESET_OFFSET: found,
            }
        )  # fmt: skip


@pytest.fixture
def offline() -> OnlineAdmin:
    return OnlineAdmin(Command(0).answer(206, "nobody is online"))


def test_a_group_whose_consumers_run() -> None:
    admin = OnlineAdmin(ONLINE)
    text = printed(offsets.reset, admin, group="G", topic="T", timestamp="now", cplus="")
    assert text.startswith(
        "rollback consumer offset by specified group[G], topic[T], force[true], "
        "timestamp(string)[now], timestamp(long)[-1]\n"
    )
    assert text.splitlines()[-1].split() == ["a", "0", "7"]
    assert admin.language is Language.CPP
    assert admin.fields(Code.INVOKE_BROKER_TO_RESET_OFFSET)[0]["timestamp"] == -1


def test_the_table_of_cpp_clients_is_a_list() -> None:
    queue = {"brokerName": "a", "queueId": 0, "topic": "T", "offset": 3}
    admin = OnlineAdmin(answer({"offsetTable": [queue]}))
    found = in_json(offsets.skip, admin, group="G", topic="T")
    assert found["queues"] == [{"broker": "a", "queue": 0, "offset": 3}]


def test_a_group_that_nobody_is_in(offline: OnlineAdmin) -> None:
    text = printed(offsets.reset, offline, group="G", topic="T", timestamp="5")
    assert text.splitlines()[-1].split() == ["a", "0", "9", "4", "6", "6"]
    assert offline.fields(Code.UPDATE_CONSUMER_OFFSET)[0]["commitOffset"] == "6"
    found = in_json(offsets.skip, offline, group="G", topic="T")
    assert found["queues"][0]["rollbackOffset"] == 9


def test_without_force_it_only_goes_back(offline: OnlineAdmin) -> None:
    found = in_json(offsets.reset, offline, group="G", topic="T", timestamp="5", force="false")
    assert found["queues"][0]["rollbackOffset"] == 4
    assert offline.fields(Code.UPDATE_CONSUMER_OFFSET) == []


def test_a_group_that_was_never_there_begins_at_the_beginning(offline: OnlineAdmin) -> None:
    offline.answers[Code.GET_CONSUME_STATS] = answer({"offsetTable": {}})
    bounds = {"minOffset": 2, "maxOffset": 9, "lastUpdateTimestamp": 0}
    offline.answers[Code.GET_TOPIC_STATS_INFO] = answer({"offsetTable": {QUEUE: bounds}})
    row = in_json(offsets.skip, offline, group="G", topic="T")["queues"][0]
    assert (row["consumerOffset"], row["rollbackOffset"]) == (2, 9)


def test_another_refusal_is_told() -> None:
    admin = OnlineAdmin(Command(0).answer(1, "THe consumer group <G> not exist"))
    for work in (offsets.reset, offsets.skip):
        with pytest.raises(Refused, match="CODE: 1  DESC: THe consumer group <G> not exist"):
            printed(work, admin, group="G", topic="T", timestamp="now")


def test_offsets_are_cloned(offline: OnlineAdmin) -> None:
    text = printed(offsets.clone, offline, srcGroup="G", destGroup="H", topic="T")
    assert text == "clone group offset success. srcGroup[G], destGroup=[H], topic[T]"
    address, _, fields, _ = offline.asked[-1]
    assert (address, fields["consumerGroup"], fields["commitOffset"]) == (BROKER, "H", "4")


def test_offsets_of_another_topic_at_another_broker_are_cloned_too(offline: OnlineAdmin) -> None:
    elsewhere = (("brokerName", "b"), ("queueId", 3), ("topic", "U"))
    offset = {"brokerOffset": 9, "consumerOffset": 5, "lastTimestamp": 0}
    offline.answers[Code.GET_CONSUME_STATS] = answer({"offsetTable": {elsewhere: offset}})

    def route(fields: dict[str, Any]) -> Command:
        names = {"T": "a", "%RETRY%G": "ab"}[fields["topic"]]
        brokers = [{"brokerName": name, "brokerAddrs": {0: f"{name}:1"}} for name in names]
        return answer({"brokerDatas": brokers})

    offline.answers[Code.GET_ROUTEINFO_BY_TOPIC] = route
    printed(offsets.clone, offline, srcGroup="G", destGroup="H", topic="T")
    address, _, fields, _ = offline.asked[-1]
    assert (address, fields["topic"], fields["queueId"]) == ("b:1", "U", "3")
