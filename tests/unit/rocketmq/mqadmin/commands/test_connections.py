from __future__ import annotations

import pytest

from penstock.rocketmq.mqadmin.commands import connections
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer, in_json, printed

MEMBER = {"clientId": "10.0.0.1@1", "clientAddr": "10.0.0.1:5", "language": "JAVA", "version": 407}


def test_producers() -> None:
    admin = FakeAdmin({Code.GET_PRODUCER_CONNECTION_LIST: answer({"connectionSet": [MEMBER]})})
    text = printed(connections.producer_connection, admin, producerGroup="G", topic="T")
    assert text.split() == ["0001", "10.0.0.1@1", "10.0.0.1:5", "JAVA", "V4_9_7"]
    admin = FakeAdmin({Code.GET_PRODUCER_CONNECTION_LIST: answer({})})
    with pytest.raises(CommandFailed, match="Not found the producer group connection"):
        printed(connections.producer_connection, admin, producerGroup="G", topic="T")


def test_consumers_and_what_they_subscribe() -> None:
    found = {
        "connectionSet": [MEMBER], "consumeType": "CONSUME_PASSIVELY",
        "subscriptionTable": {"T": {"topic": "T", "subString": "a || b"}},
    }  # fmt: skip
    admin = FakeAdmin({Code.GET_CONSUMER_CONNECTION_LIST: answer(found)})
    shown = in_json(connections.consumer_connection, admin, consumerGroup="G", brokerAddr=BROKER)
    assert shown["subscriptions"] == [{"topic": "T", "expression": "a || b"}]
    assert (shown["connections"][0]["version"], shown["messageModel"]) == ("V4_9_7", None)


def test_all_producers_of_a_broker() -> None:
    one = {"clientId": "c", "remoteIP": "/1.2.3.4:5", "language": "JAVA", "version": 407,
           "lastUpdateTimestamp": 7}  # fmt: skip
    admin = FakeAdmin({Code.GET_ALL_PRODUCER_INFO: answer({"data": {"G": [one], "E": []}})})
    assert printed(connections.producer, admin, broker=BROKER) == (
        "producer group (E) instances are empty\n"
        "producer group (G) instance : clientId=c,remoteIP=/1.2.3.4:5, language=JAVA, "
        "version=407, lastUpdateTimestamp=7\n"
    )
