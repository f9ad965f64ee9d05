from __future__ import annotations

from penstock.rocketmq.client.admin.messages import (
    KeyQuery,
    again,
    at_offset,
    consume_directly,
    with_key,
)
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer

HOST = Host.parse("127.0.0.1:10911")


def message(topic: str, identifier: str, keys: str) -> bytes:
    properties = f"UNIQ_KEY\1{identifier}\2KEYS\1{keys}\2"
    return encode(StoredMessage(topic, b"tea", 0, 0, 0, HOST, HOST, 1, 1, properties))


def test_fields_of_a_key_and_of_an_id() -> None:
    asked = {"topic": "t", "key": "k", "maxNum": 9, "beginTimestamp": 0,
             "endTimestamp": (1 << 63) - 1}  # fmt: skip
    assert KeyQuery("t", "k").fields(9) == asked
    assert KeyQuery("t", "k", is_id=True).fields(9) == asked | {"_UNIQUE_KEY_QUERY": "true"}


def test_an_answer_has_messages_of_other_keys_topics_and_ids() -> None:
    answer = (
        message("t", "one", "k")
        + message("t", "two", "else k")
        + message("t", "k", "else")
        + message("other", "three", "k")
    )
    assert [each.id for each in KeyQuery("t", "k").found(answer, "b")] == ["one", "two"]
    assert [each.id for each in KeyQuery("t", "k", is_id=True).found(answer, "b")] == ["k"]


def test_messages_of_an_index_and_of_a_place() -> None:
    found = answer(message("t", "one", "k") + message("t", "two", "else"))
    admin = FakeAdmin({Code.QUERY_MESSAGE: found, Code.VIEW_MESSAGE_BY_ID: found})
    indexed = admin.do(with_key(admin, BROKER, KeyQuery("t", "k"), 9, "b"))
    assert [(each.id, each.broker) for each in indexed] == [("one", "b")]
    placed = admin.do(at_offset(admin, BROKER, 7))
    assert [each.id for each in placed] == ["one", "two"]
    admin.do(at_offset(admin, BROKER, 7, "t"))
    assert admin.fields(Code.VIEW_MESSAGE_BY_ID) == [{"offset": 7}, {"offset": 7, "topic": "t"}]


def test_a_message_that_one_member_handles() -> None:
    admin = FakeAdmin({Code.CONSUME_MESSAGE_DIRECTLY: answer({"consumeResult": "CR_SUCCESS"})})
    found = admin.do(consume_directly(admin, BROKER, "G", "me", "id", topic="t"))
    assert found == {"consumeResult": "CR_SUCCESS"}
    wanted = {"consumerGroup": "G", "clientId": "me", "msgId": "id", "topic": "t"}
    assert admin.fields(Code.CONSUME_MESSAGE_DIRECTLY) == [wanted]


def test_a_message_again_is_a_new_one_of_the_user() -> None:
    stored = StoredMessage("t", b"tea", 3, 0, 0, HOST, HOST, 1, 1, "UNIQ_KEY\1one\2KEYS\1k\2x\1y\2")
    found = again(Received(stored))
    assert (found.topic, found.body, found.keys) == ("t", b"tea", ["k"])
    assert found.properties == {"x": "y"}
