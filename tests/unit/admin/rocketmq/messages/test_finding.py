from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.rocketmq.messages.finding import Wish, by_id, find, record
from penstock.cluster.fanout import Warnings
from penstock.nsq.http_api import ApiError
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.ids import Host, OffsetId
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode
from tests.unit.admin.rocketmq.scripted import A, B, Scripted, route

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def message(number: int, ms: int, **values: Any) -> bytes:
    host = Host.parse(A)
    text = f"UNIQ_KEY\1id-{number}\2KEYS\1key\2"
    return encode(StoredMessage("t", b"tea", 0, number, number, host, host, ms, ms, text, **values))


def found(*messages: bytes) -> Command:
    return Command(0, 0, None, b"".join(messages))


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (b"", "MISSING_ARG_TOPIC"),
        (b"topic=t&offset=x", "INVALID_OFFSET"),
        (b"topic=t&begin=-1", "INVALID_BEGIN"),
        (b"topic=t&queue=99999999999999999999", "INVALID_QUEUE"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(query: bytes, code: str) -> None:
    with pytest.raises(ApiError, match=code):
        Wish.parse(query)


def test_a_limit_has_bounds() -> None:
    limits = [Wish.parse(b"topic=t&limit=" + each).limit for each in (b"", b"0", b"5", b"9999")]
    assert limits == [32, 1, 5, 64]


async def test_an_id_with_the_address_of_a_stranger_leads_nowhere() -> None:
    scripted = Scripted({ROUTE: route(), RequestCode.QUERY_MESSAGE: found()})
    stranger = str(OffsetId(Host.parse("10.9.8.7:80"), 5))
    assert await by_id(scripted, "t", stranger, Warnings()) == []
    assert {address for address, _, _ in scripted.asked} <= {A, B, "127.0.0.1:9876"}
    assert RequestCode.VIEW_MESSAGE_BY_ID not in [code for _, code, _ in scripted.asked]


async def test_an_id_of_a_broker_asks_that_broker() -> None:
    scripted = Scripted({(A, RequestCode.VIEW_MESSAGE_BY_ID): found(message(1, 10))})
    (one,) = await by_id(scripted, "t", str(OffsetId(Host.parse(A), 5)), Warnings())
    assert one.id == "id-1"
    assert await by_id(scripted, "other", one.offset_id, Warnings()) == []


async def test_an_index_may_know_other_keys_of_the_same_hash() -> None:
    answer = found(message(1, 10), message(2, 20))
    scripted = Scripted({ROUTE: route(), RequestCode.QUERY_MESSAGE: answer})
    told = await find(scripted, Wish("t", 10, key="key"))
    assert [each["id"] for each in told["messages"]] == ["id-2", "id-2", "id-1", "id-1"]
    assert (await find(scripted, Wish("t", 10, key="else")))["messages"] == []


async def test_a_time_goes_on_where_the_page_ends() -> None:
    answer = found(*(message(number, 10 * number) for number in range(1, 5)))
    scripted = Scripted(
        {
            ROUTE: route(),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Command(0, 0, {"offset": "0"}),
            (A, RequestCode.PULL_MESSAGE): answer,
            (B, RequestCode.PULL_MESSAGE): found(),
        }
    )
    told = await find(scripted, Wish("t", 2, begin_ms=10, end_ms=40))
    assert [each["stored_ms"] for each in told["messages"]] == [10, 20]
    assert told["next_ms"] == 20
    told = await find(scripted, Wish("t", 2, begin_ms=30, end_ms=40))
    assert ([each["stored_ms"] for each in told["messages"]], told["next_ms"]) == ([30, 40], None)


async def test_a_time_within_which_more_came_than_a_page_holds_still_goes_on() -> None:
    answer = found(*(message(number, 10) for number in range(5)))
    scripted = Scripted(
        {
            ROUTE: route(),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Command(0, 0, {"offset": "0"}),
            RequestCode.PULL_MESSAGE: answer,
        }
    )
    assert (await find(scripted, Wish("t", 2, begin_ms=10)))["next_ms"] == 11


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
