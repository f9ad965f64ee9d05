"""Texts as upstream's tool makes them; the expected ones were printed by it."""

from __future__ import annotations

import time

import pytest

from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.mqadmin import java_text
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages.message import StoredMessage


def test_a_map_is_in_the_order_of_a_hash_map() -> None:
    values = {"KEYS": "key-0", "UNIQ_KEY": "F", "CLUSTER": "C", "color": "blue", "TAGS": "A",
              "MIN_OFFSET": "0", "MAX_OFFSET": "1"}  # fmt: skip
    assert java_text.map_text(values) == (
        "{MIN_OFFSET=0, color=blue, MAX_OFFSET=1, KEYS=key-0, UNIQ_KEY=F, CLUSTER=C, TAGS=A}"
    )


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert java_text.to_millisecond(1795414285042) == "2026-11-23 06:11:25,042"
    assert java_text.to_millisecond(1795414285042).raw == 1795414285042
    assert java_text.to_second(1795414285042) == "2026-11-23 06:11:25"
    assert java_text.compact_time(1795414285042) == "20261123061125042"
    assert java_text.parse_time("2026-11-23#06:11:25:042") == 1795414285042
    assert java_text.parse_time("7") == 7
    with pytest.raises(CommandFailed, match="'yesterday' is no time"):
        java_text.parse_time("yesterday")


def test_configurations() -> None:
    fields = {"topic": "T", "readQueueNums": 2, "writeQueueNums": 3, "perm": 4,
              "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}  # fmt: skip
    assert java_text.topic_config(fields) == (
        "TopicConfig [topicName=T, readQueueNums=2, writeQueueNums=3, perm=R--, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false]"
    )
    assert java_text.group_config({"groupName": "G", "consumeEnable": True}).startswith(
        "SubscriptionGroupConfig [groupName=G, consumeEnable=true, consumeFromMinEnable=null, "
    )


def test_a_message() -> None:
    stored = StoredMessage(
        "made", b"h\xff", 0, 3, 9, Host.parse("127.0.0.1:60198"), Host.parse("127.0.0.1:10911"),
        5, 6, "KEYS\x01k\x02",
    )  # fmt: skip
    text = java_text.message_text(Received(stored, "broker-a"))
    assert text.startswith("MessageExt [brokerName=broker-a, queueId=0, storeSize=")
    assert "bornHost=/127.0.0.1:60198, storeTimestamp=6, storeHost=/127.0.0.1:10911" in text
    assert text.endswith(
        "toString()=Message{topic='made', flag=0, properties={KEYS=k}, body=[104, -1], "
        "transactionId='null'}]"
    )


def test_a_queue() -> None:
    assert (
        java_text.queue_text(MessageQueue("b", 0, "T"))
        == "MessageQueue [topic=T, brokerName=b, queueId=0]"
    )


def test_indented_json() -> None:
    value = {"a": {0: "x"}, "e": {}, "list": [{"n": 1}], "none": None, "words": ["JAVA%V4_9_7"]}
    assert java_text.pretty(value) == (
        '{\n\t"a":{0:"x"\n\t},\n\t"e":{},\n\t"list":[\n\t\t{\n\t\t\t"n":1\n\t\t}\n\t],\n'
        '\t"words":["JAVA%V4_9_7"]\n}'
    )


def test_small_words() -> None:
    assert [java_text.word(each) for each in (None, True, 3)] == ["null", "true", "3"]
    assert java_text.cut("broker", 3) == "bro"
