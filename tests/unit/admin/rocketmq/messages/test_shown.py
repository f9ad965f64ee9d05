from __future__ import annotations

import pytest

from penstock.admin.rocketmq.messages.shown import record
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage


def stored(body: bytes = b"tea", **values: str) -> Received:
    host = Host.parse("10.0.0.1:5")
    text = properties.join(values)
    return Received(StoredMessage("t", body, 1, 2, 3, host, host, 4, 5, text), "a")


def test_a_message_with_all_that_there_is_to_it() -> None:
    found = record(stored(KEYS="k1 k2", TAGS="x", UNIQ_KEY="id", own="1"), 100)
    assert (found["id"], found["keys"], found["tags"]) == ("id", ["k1", "k2"], "x")
    assert (found["broker"], found["queue"], found["offset"]) == ("a", 1, 2)
    assert (found["body"], found["size"], found["properties"]["own"]) == ("tea", 3, "1")
    assert found["origin"] == "t"


def test_a_letter_says_which_topic_it_was_sent_to() -> None:
    assert record(stored(RETRY_TOPIC="orders"), 100)["origin"] == "orders"


@pytest.mark.parametrize(
    ("body", "most", "shown"),
    [
        (b"\xff\xfe", 10, {"body_base64": "//4="}),
        ("aß".encode(), 2, {"body": "a"}),
        ("a\N{ROCKET}".encode(), 4, {"body": "a"}),
        (b"\xff" + b"a" * 9, 9, {"body_base64": "/2FhYWFhYWFh"}),
        (b"", 10, {"body": ""}),
    ],
)
def test_a_body_is_cut_between_characters(body: bytes, most: int, shown: dict[str, str]) -> None:
    found = record(stored(body), most)
    assert {name: found[name] for name in found if name.startswith("body")} == shown
    assert found["size"] == len(body)
