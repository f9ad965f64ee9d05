"""What each request needs."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.acl import needs
from penstock.rocketmq.broker.acl.rules import Permission
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError

PUB, SUB = Permission.PUB, Permission.SUB
T, G = ("T", SUB), ("%RETRY%g", SUB)

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
    (Code.CONSUMER_SEND_MSG_BACK, {"group": "g", "originTopic": "T"}, [G]),
    (Code.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "g"}, [G]),
    (Code.UNREGISTER_CLIENT, {"clientID": "c", "producerGroup": "p", "consumerGroup": ""}, []),
    (Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}, [G]),
    (Code.VIEW_MESSAGE_BY_ID, {"offset": "1"}, []),
    (Code.END_TRANSACTION, {"producerGroup": "p"}, []),
]


@pytest.mark.parametrize(("code", "ext", "wanted"), NEEDS)
def test_needs(code: Code, ext: dict[str, str], wanted: list[Any]) -> None:
    assert needs.of(Command(code, ext=ext)) == wanted


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
    assert needs.of(Command(Code.HEART_BEAT, body=fastjson.dumps(body))) == [G, T, G]


def test_a_heartbeat_without_sense_is_an_error_of_its_sender() -> None:
    with pytest.raises(BodyError):
        needs.of(Command(Code.HEART_BEAT, body=b"[1]"))


def test_acknowledgements_need_what_they_name() -> None:
    entry = {"r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1, "b": "AQ=="}
    acks = [{"t": topic, "c": group, **entry} for topic, group in (("T", "g"), ("T", "h"))]
    command = Command(Code.BATCH_ACK_MESSAGE, body=fastjson.dumps({"acks": acks}))
    assert needs.of(command) == [T, G, ("%RETRY%h", SUB)]
    with pytest.raises(BodyError):
        needs.of(Command(Code.BATCH_ACK_MESSAGE, body=b'{"acks":5}'))


def test_only_administrators_change_topics_groups_configuration_and_rules() -> None:
    assert {int(code) for code in needs.ADMIN} == {17, 18, 215, 25, 200, 225, 207, 50, 51, 52, 53}
