"""Popping or pulling, and the queues of a member."""

from __future__ import annotations

import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.pop.request_mode_table import RequestModes
from penstock.rocketmq.broker.registration import NameServers
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.group_table import GroupConfig
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.peers import ask, ask_json, ask_later, join, refused


@pytest.fixture
def topic(services: Services) -> Services:
    services.topics.put(TopicConfig("T", 5, 5), services.now_ms)
    services.groups.put(GroupConfig("G"), services.now_ms)
    return services


def join_all(services: Services, clients: str) -> None:
    for client in clients:
        join(services, client)


def set_mode(services: Services, **changes: Any) -> int:
    body = {"consumerGroup": "G", "topic": "T", "mode": "POP", "popShareQueueNum": 0, **changes}
    return ask(services, Code.SET_MESSAGE_REQUEST_MODE, json.dumps(body).encode()).code


async def assigned(services: Services, client: str, **changes: Any) -> tuple[str, list[int]] | None:
    body = {"clientId": client, "consumerGroup": "G", "topic": "T", "strategyName": "AVG",
            "messageModel": "CLUSTERING", **changes}  # fmt: skip
    answer = await ask_later(services, Code.QUERY_ASSIGNMENT, json.dumps(body).encode())
    assignments = json.loads(answer.body).get("messageQueueAssignments")
    if assignments is None:
        return None
    queues = [each["messageQueue"] for each in assignments]
    assert all((each["brokerName"], each["topic"]) == ("broker-a", "T") for each in queues)
    (mode,) = {each["mode"] for each in assignments} or {""}
    return mode, [each["queueId"] for each in queues]


async def test_who_pulls_has_queues_of_its_own(topic: Services) -> None:
    assert await assigned(topic, "a") is None  # nobody is there yet
    join_all(topic, "ba")
    assert await assigned(topic, "b") == ("PULL", [3, 4])
    assert await assigned(topic, "stranger") == ("", [])
    changes: list[tuple[dict[str, Any], tuple[str, list[int]] | None]] = [
        ({}, ("PULL", [0, 1, 2])),
        ({"strategyName": "AVG_BY_CIRCLE"}, ("PULL", [0, 2, 4])),
        ({"strategyName": "UNKNOWN"}, None),
        ({"strategyName": ["AVG"]}, None),
        ({"topic": "missing"}, None),
        ({"messageModel": "BROADCASTING"}, ("PULL", [0, 1, 2, 3, 4])),
    ]
    for asked, wanted in changes:
        assert await assigned(topic, "a", **asked) == wanted, asked


async def test_who_pops_shares(topic: Services) -> None:
    join_all(topic, "abcd")
    for shared, by_client in (
        (0, {"a": [-1]}), (1, {"a": [0, 1, 2], "d": [4, 0, 1]}), (3, {"a": [-1]}),
    ):  # fmt: skip
        assert set_mode(topic, popShareQueueNum=shared) == ResponseCode.SUCCESS
        for client, queues in by_client.items():
            assert await assigned(topic, client) == ("POP", queues)
    set_mode(topic, popShareQueueNum=1)
    join_all(topic, "ef")
    assert await assigned(topic, "f") == ("POP", [0])


async def test_modes_are_kept(topic: Services) -> None:
    set_mode(topic, popShareQueueNum=2)
    mode = {"consumerGroup": "G", "mode": "POP", "popShareQueueNum": 2, "topic": "T"}
    found = ask_json(topic, Code.GET_ALL_MESSAGE_REQUEST_MODE)
    assert found == {"messageRequestModeMap": {"T": {"G": mode}}}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "%RETRY%G"}, ResponseCode.NO_PERMISSION),
        ({"topic": "missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"consumerGroup": "missing"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"mode": "PUSH"}, None),
        ({"topic": None}, None),
        ({"popShareQueueNum": "1"}, None),
    ],
)
async def test_refusals(topic: Services, changes: dict[str, Any], code: int | None) -> None:
    topic.settings.auto_create_subscription_group = False
    with pytest.raises(BodyError) if code is None else refused(code):
        set_mode(topic, **changes)


def test_a_new_group_is_made(topic: Services) -> None:
    assert set_mode(topic, consumerGroup="new") == ResponseCode.SUCCESS
    assert topic.groups.get("new") is not None
    assert topic.request_modes.of("T", "new") == ("POP", 0)
    with pytest.raises(RefusedError):
        set_mode(topic, consumerGroup="a b")
    assert topic.groups.get("a b") is None


@pytest.mark.parametrize(
    "queue_datas",
    [5, [5], [{}], [{"brokerName": 1, "readQueueNums": 4, "perm": 6}],
     [{"brokerName": "b", "readQueueNums": "4", "perm": 6}],
     [{"brokerName": "b", "readQueueNums": 4, "perm": 2}]],
)  # fmt: skip
async def test_routes_that_make_no_sense_count_for_nothing(
    topic: Services, queue_datas: Any
) -> None:
    route = Command(0, 1, body=json.dumps({"queueDatas": queue_datas}).encode())
    topic.name_servers = cast(NameServers, SimpleNamespace(ask=AsyncMock(return_value=route)))
    join_all(topic, "a")
    assert await assigned(topic, "a") == ("PULL", [0, 1, 2, 3, 4])


# --- the table ------------------------------------------------------------------------------------


def test_modes_are_kept_until_their_topic_goes() -> None:
    modes, again = RequestModes(), RequestModes()
    modes.put("T", "G", "POP", 2)
    again.load(modes.as_json())
    assert (again.of("T", "G"), again.of("T", "other")) == (("POP", 2), ("PULL", 0))
    again.forget_topic("T")
    assert again.of("T", "G") == ("PULL", 0)


def test_what_is_loaded_takes_the_place_of_what_was_there() -> None:
    """As when a slave reads the table again that its master has written."""
    modes = RequestModes()
    modes.put("T", "G", "POP", 2)
    for value in ({"T": {"H": {"topic": "T", "consumerGroup": "H", "mode": "POP"}, "I": {}}}, {}):
        with suppress(BodyError):
            modes.load({"messageRequestModeMap": value})
        assert modes.of("T", "H") == ("PULL", 0)
    assert modes.of("T", "G") == ("PULL", 0)


@pytest.mark.parametrize("value", [None, {}, {"messageRequestModeMap": {"T": {"G": {}}}}])
def test_a_file_that_is_none(value: Any) -> None:
    with pytest.raises(BodyError):
        RequestModes().load(value)
