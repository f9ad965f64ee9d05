"""Popping or pulling, and the queues of a member."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.registration import NameServers
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state.groups import GroupConfig
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.peers import (
    FakePeer,
    answered,
    answered_later,
    hand_over,
    heartbeat,
    request,
)

PEER = FakePeer().connection


@pytest.fixture
def topic(services: Services) -> Services:
    services.topics.put(TopicConfig("T", 5, 5), services.now_ms)
    services.groups.put(GroupConfig("G"), services.now_ms)
    return services


def join(services: Services, *clients: str) -> None:
    for client in clients:
        hand_over(services, FakePeer().connection, request(34, heartbeat(client, "G")))


def set_mode(services: Services, **changes: Any) -> Any:
    body = {"consumerGroup": "G", "topic": "T", "mode": "POP", "popShareQueueNum": 0, **changes}
    given = request(RequestCode.SET_MESSAGE_REQUEST_MODE, json.dumps(body).encode())
    return answered(services, PEER, given)


async def assigned(services: Services, client: str, **changes: Any) -> tuple[str, list[int]] | None:
    body = {"clientId": client, "consumerGroup": "G", "topic": "T", "strategyName": "AVG",
            "messageModel": "CLUSTERING", **changes}  # fmt: skip
    given = request(RequestCode.QUERY_ASSIGNMENT, json.dumps(body).encode())
    found = json.loads((await answered_later(services, PEER, given)).body)
    assignments = found.get("messageQueueAssignments")
    if assignments is None:
        return None
    queues = [each["messageQueue"] for each in assignments]
    assert all((each["brokerName"], each["topic"]) == ("broker-a", "T") for each in queues)
    (mode,) = {each["mode"] for each in assignments} or {""}
    return mode, [each["queueId"] for each in queues]


async def test_who_pulls_has_queues_of_its_own(topic: Services) -> None:
    assert await assigned(topic, "a") is None  # nobody is there yet
    join(topic, "b", "a")
    assert await assigned(topic, "a") == ("PULL", [0, 1, 2])
    assert await assigned(topic, "b") == ("PULL", [3, 4])
    assert await assigned(topic, "a", strategyName="AVG_BY_CIRCLE") == ("PULL", [0, 2, 4])
    assert await assigned(topic, "stranger") == ("", [])
    assert await assigned(topic, "a", strategyName="UNKNOWN") is None
    assert await assigned(topic, "a", strategyName=["AVG"]) is None
    assert await assigned(topic, "a", topic="missing") is None
    everything = ("PULL", [0, 1, 2, 3, 4])
    assert await assigned(topic, "a", messageModel="BROADCASTING") == everything


async def test_who_pops_shares(topic: Services) -> None:
    join(topic, "a", "b", "c", "d")
    assert set_mode(topic).code == ResponseCode.SUCCESS
    assert await assigned(topic, "a") == ("POP", [-1])
    set_mode(topic, popShareQueueNum=1)
    assert await assigned(topic, "a") == ("POP", [0, 1, 2])
    assert await assigned(topic, "d") == ("POP", [4, 0, 1])
    set_mode(topic, popShareQueueNum=3)
    assert await assigned(topic, "a") == ("POP", [-1])
    set_mode(topic, popShareQueueNum=1)
    join(topic, "e", "f")
    assert await assigned(topic, "f") == ("POP", [0])


async def test_modes_are_kept(topic: Services) -> None:
    set_mode(topic, popShareQueueNum=2)
    answer = answered(topic, PEER, request(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE))
    value = json.loads(answer.body)
    assert value == {"messageRequestModeMap": {"T": {"G": {
        "consumerGroup": "G", "mode": "POP", "popShareQueueNum": 2, "topic": "T",
    }}}}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "%RETRY%G"}, ResponseCode.NO_PERMISSION),
        ({"topic": "missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"consumerGroup": "missing"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
async def test_refusals(topic: Services, changes: dict[str, Any], code: ResponseCode) -> None:
    topic.settings.auto_create_subscription_group = False
    with pytest.raises(RefusedError) as caught:
        set_mode(topic, **changes)
    assert caught.value.code == code


def test_a_new_group_is_made(topic: Services) -> None:
    assert set_mode(topic, consumerGroup="new").code == 0
    assert topic.groups.get("new") is not None
    assert topic.request_modes.of("T", "new") == ("POP", 0)
    with pytest.raises(RefusedError):
        set_mode(topic, consumerGroup="a b")
    assert topic.groups.get("a b") is None


@pytest.mark.parametrize("changes", [{"mode": "PUSH"}, {"topic": None}, {"popShareQueueNum": "1"}])
async def test_bodies_that_are_none(topic: Services, changes: dict[str, Any]) -> None:
    with pytest.raises(BodyError):
        set_mode(topic, **changes)


class _NameServers:
    """Say of every topic what they were told to."""

    def __init__(self, route: Any) -> None:
        self._body = json.dumps(route).encode()

    async def ask(self, code: int, fields: dict[str, str], *, seconds: float) -> Command:
        return Command(0, 1, body=self._body)


@pytest.mark.parametrize(
    "queue_datas",
    [5, [5], [{}], [{"brokerName": 1, "readQueueNums": 4, "perm": 6}],
     [{"brokerName": "b", "readQueueNums": "4", "perm": 6}],
     [{"brokerName": "b", "readQueueNums": 4, "perm": 2}]],
)  # fmt: skip
async def test_routes_that_make_no_sense_count_for_nothing(
    topic: Services, queue_datas: Any
) -> None:
    topic.name_servers = cast("NameServers", _NameServers({"queueDatas": queue_datas}))
    join(topic, "a")
    assert await assigned(topic, "a") == ("PULL", [0, 1, 2, 3, 4])
