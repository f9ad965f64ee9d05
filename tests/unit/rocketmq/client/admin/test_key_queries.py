from __future__ import annotations

from penstock.rocketmq.client.admin.key_queries import KeyQuery
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode

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
