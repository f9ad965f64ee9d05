"""What each request needs."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.acl import needs
from penstock.rocketmq.broker.acl.rules import Permission
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.message_store import MessageStore
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from tests.unit.rocketmq.broker.filling import store

PUB, SUB = Permission.PUB, Permission.SUB
T, G, H = ("T", SUB), ("%RETRY%g", SUB), ("%RETRY%h", SUB)
NOWHERE = cast(MessageStore, None)
"""A stand-in for requests that name no message by its position."""


def read(request: Command, store: MessageStore = NOWHERE) -> needs.Needs:
    return needs.of(request.code).read(store, request)


def test_every_code_that_is_answered_has_a_rule(services: Services) -> None:
    """Without a rule, a new answerer would be for administrators by default and not by decision."""
    assert needs.RULES.keys() == services.answers.codes


def test_codes_without_a_rule_are_for_administrators() -> None:
    for code in (Code.QUERY_BROKER_OFFSET, Code.CHECK_TRANSACTION_STATE, 9999, -1):
        assert needs.of(code).is_admins


NEEDS: list[tuple[Code, dict[str, str], list[tuple[str, Permission]]]] = [
    (Code.SEND_MESSAGE, {"topic": "T", "producerGroup": "p"}, [("T", PUB)]),
    (Code.SEND_MESSAGE_V2, {"b": "T", "a": "p"}, [("T", PUB)]),
    (Code.SEND_BATCH_MESSAGE, {"b": "T"}, [("T", PUB)]),
    (Code.SEND_REPLY_MESSAGE, {"topic": "T"}, [("T", PUB)]),
    (Code.SEND_REPLY_MESSAGE_V2, {"b": "T"}, [("T", PUB)]),
    (Code.SEND_MESSAGE, {"topic": "%RETRY%g"}, [G]),
    (Code.SEND_MESSAGE_V2, {"b": "%RETRY%g", "a": "CLIENT_INNER_PRODUCER"}, [G]),
    (Code.SEND_MESSAGE, {}, []),
    (Code.PULL_MESSAGE, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.PULL_MESSAGE, {"topic": "%RETRY%g", "consumerGroup": "g"}, [G, G]),
    (Code.LITE_PULL_MESSAGE, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.POP_MESSAGE, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.UPDATE_CONSUMER_OFFSET, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.QUERY_CONSUMER_OFFSET, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.QUERY_MESSAGE, {"topic": "T", "key": "k"}, [T]),
    (Code.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "g"}, [G]),
    (Code.UNREGISTER_CLIENT, {"clientID": "c", "producerGroup": "p", "consumerGroup": ""}, []),
    (Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}, [G]),
    (Code.CHANGE_MESSAGE_INVISIBLETIME, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.POLLING_INFO, {"topic": "T", "consumerGroup": "g"}, [T, G]),
    (Code.GET_MAX_OFFSET, {"topic": "T"}, [("T", PUB | SUB)]),
    (Code.GET_TOPIC_STATS_INFO, {"topic": "%RETRY%g"}, [("%RETRY%g", PUB | SUB)]),
    (Code.GET_CONSUME_STATS, {"consumerGroup": "g"}, [G]),
    (Code.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "T"}, [T, G]),
    (Code.QUERY_CONSUME_QUEUE, {"topic": "T"}, [T]),
    (Code.INVOKE_BROKER_TO_RESET_OFFSET, {"topic": "T", "group": "g"}, [T, G]),
    (Code.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h"}, [G, H]),
    (Code.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h", "topic": "T"}, [T, G, H]),
    (Code.GET_BROKER_RUNTIME_INFO, {}, []),
]


@pytest.mark.parametrize(("code", "ext", "wanted"), NEEDS)
def test_needs(code: Code, ext: dict[str, str], wanted: list[Any]) -> None:
    assert read(Command(code, ext=ext)) == wanted


def test_a_heartbeat_needs_what_its_consumers_subscribe() -> None:
    body = {
        "clientID": "c",
        "producerDataSet": [{"groupName": "p"}],
        "consumerDataSet": [
            {"groupName": "g", "subscriptionDataSet": [
                {"topic": "T", "subString": "*"}, {"topic": "%RETRY%g", "subString": "*"},
            ]},
        ],
    }  # fmt: skip
    assert read(Command(Code.HEART_BEAT, body=fastjson.dumps(body))) == [G, T, G]


def test_a_heartbeat_without_sense_is_an_error_of_its_sender() -> None:
    with pytest.raises(BodyError):
        read(Command(Code.HEART_BEAT, body=b"[1]"))


def test_acknowledgements_need_what_they_name() -> None:
    entry = {"r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1, "b": "AQ=="}
    acks = [{"t": topic, "c": group, **entry} for topic, group in (("T", "g"), ("T", "h"))]
    command = Command(Code.BATCH_ACK_MESSAGE, body=fastjson.dumps({"acks": acks}))
    assert read(command) == [T, G, ("%RETRY%h", SUB)]
    with pytest.raises(BodyError):
        read(Command(Code.BATCH_ACK_MESSAGE, body=b'{"acks":5}'))


@pytest.mark.parametrize("code", [Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ])
def test_locks_need_their_group(code: Code) -> None:
    body = {"consumerGroup": "g", "clientId": "c", "mqSet": []}
    assert read(Command(code, body=fastjson.dumps(body))) == [G]
    with pytest.raises(BodyError):
        read(Command(code, body=b"{}"))


@pytest.mark.parametrize("code", [Code.QUERY_ASSIGNMENT, Code.SET_MESSAGE_REQUEST_MODE])
def test_topic_and_group_of_a_body(code: Code) -> None:
    body = {"topic": "T", "consumerGroup": "g", "mode": "POP"}
    assert read(Command(code, body=fastjson.dumps(body))) == [T, G]
    assert read(Command(code, body=b"[]")) == []


def test_a_message_named_by_its_place_needs_its_topic(services: Services) -> None:
    (placed,) = asyncio.run(store(services, "T", 0, b"x"))
    offset = str(placed.physical_offset)
    assert read(Command(Code.VIEW_MESSAGE_BY_ID, ext={"offset": offset}), services.store) == [T]
    back = {"offset": offset, "group": "g", "originTopic": "other"}
    assert read(Command(Code.CONSUMER_SEND_MSG_BACK, ext=back), services.store) == [G, T]
    direct = {"msgId": placed.message_id, "consumerGroup": "g", "topic": "other"}
    assert read(Command(Code.CONSUME_MESSAGE_DIRECTLY, ext=direct), services.store) == [G, T]
    assert read(Command(Code.VIEW_MESSAGE_BY_ID, ext={"offset": "-1"}), services.store) == []


@pytest.mark.parametrize("topic", sorted(names.NOT_FOR_CLIENTS))
def test_a_message_that_waits_needs_the_topic_that_it_is_for(
    services: Services, topic: str
) -> None:
    (placed, _) = asyncio.run(store(services, topic, 0, b"x", b"y", REAL_TOPIC="T", REAL_QID="0"))
    view = Command(Code.VIEW_MESSAGE_BY_ID, ext={"offset": str(placed.physical_offset)})
    assert read(view, services.store) == [T]
    (lost,) = asyncio.run(store(services, topic, 0, b"x"))
    view.ext = {"offset": str(lost.physical_offset)}
    assert read(view, services.store) == [(topic, SUB)]


def test_a_producer_cannot_lend_its_message_the_permissions_of_another_topic(
    services: Services,
) -> None:
    (placed,) = asyncio.run(store(services, "T", 0, b"x", REAL_TOPIC="public"))
    view = Command(Code.VIEW_MESSAGE_BY_ID, ext={"offset": str(placed.physical_offset)})
    assert read(view, services.store) == [T]


def test_the_end_of_a_transaction_needs_its_topic(services: Services) -> None:
    (half,) = asyncio.run(store(services, names.HALF_TOPIC, 0, b"x", REAL_TOPIC="T", REAL_QID="0"))
    (other,) = asyncio.run(store(services, "T", 0, b"x"))
    end = Command(Code.END_TRANSACTION, ext={"commitLogOffset": str(half.physical_offset)})
    assert read(end, services.store) == [("T", PUB)]
    end.ext = {"commitLogOffset": str(other.physical_offset), "topic": "mine"}
    assert read(end, services.store) == []  # its answerer finds no half there


def test_what_administrators_only_may_do() -> None:
    codes = {int(code) for code, rule in needs.RULES.items() if rule.is_admins}
    assert codes >= {17, 18, 215, 25, 200, 225, 207, 50, 51, 52, 53, 26, 306, 316, 329}
    assert not codes & {10, 11, 28, 33, 34, 36, 37, 310, 320, 200_050}
