"""A message in a consumer's hands."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from penstock.rocketmq.client.consume.received import Received, all_received
from penstock.rocketmq.client.errors import BadAnswer
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages.message import encode
from tests.unit.rocketmq.client.records import received, stored


def test_what_is_known_of_it() -> None:
    message = received(queue=3, offset=7, UNIQ_KEY="ID", TAGS="a", KEYS="k l", who="me")
    assert (message.id, message.tags, message.keys) == ("ID", "a", ["k", "l"])
    assert message.queue == MessageQueue("a", 3, "T")
    assert (message.queue_offset, message.born_at, message.stored_at) == (7, 5.0, 6.0)
    assert (message.born_host, message.store_host) == ("127.0.0.1:10911",) * 2
    assert message.properties["who"] == "me"
    assert (message.flag, message.transaction_id) == (0, "ID")
    assert "ID" in repr(message)


def test_without_an_id_of_its_producer_it_has_the_brokers() -> None:
    assert received().id == received().offset_id
    assert (received().tags, received().keys) == ("", [])


def test_one_that_comes_again_has_the_topic_that_it_was_sent_to() -> None:
    again = received(topic="%RETRY%ns%G", RETRY_TOPIC="ns%T")
    assert again.topic == "ns%T"
    assert Received(again.stored, "a", "ns").topic == "T"
    assert again.queue.topic == "%RETRY%ns%G"


def test_a_compressed_body_is_unpacked() -> None:
    packed = replace(stored(body=zlib.compress(b"tea")), sys_flag=0x1)
    assert Received(packed).body == b"tea"


def test_an_answer_has_several() -> None:
    body = encode(stored(offset=1)) + encode(stored(offset=2))
    assert [each.queue_offset for each in all_received(body, "a")] == [1, 2]
    with pytest.raises(BadAnswer, match="broker a"):
        all_received(body[:-1], "a")
