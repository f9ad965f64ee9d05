from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.rocketmq.messages.finding import Wish, by_id, find, record
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.api import ApiError
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.ids import Host, OffsetId
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode
from tests.unit.admin.rocketmq.scripted import A, B, Keeping, Scripted, route

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


async def test_messages_with_a_key_that_have_no_room_are_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.admin.rocketmq.messages.finding.ROOM", 2 * len(b"tea"))
    answer = found(message(2, 20), message(1, 10))
    scripted = Scripted({ROUTE: route(), RequestCode.QUERY_MESSAGE: answer})
    told = await find(scripted, Wish("t", 10, key="key"))
    assert [each["id"] for each in told["messages"]] == ["id-2", "id-2"]
    assert told["message"].count("only the first 1 have room") == 2


async def test_a_time_goes_on_where_the_page_ends() -> None:
    keeping = Keeping({A: [10, 20, 30, 40]})
    told = await find(keeping, Wish("t", 2, begin_ms=10, end_ms=40))
    assert [each["stored_ms"] for each in told["messages"]] == [10, 20]
    assert told["next_ms"] == 20
    told = await find(keeping, Wish("t", 2, begin_ms=30, end_ms=40))
    assert ([each["stored_ms"] for each in told["messages"]], told["next_ms"]) == ([30, 40], None)


async def test_a_time_within_which_more_came_than_a_page_holds_still_goes_on() -> None:
    keeping = Keeping({A: [10] * 5, B: [10] * 5})
    assert (await find(keeping, Wish("t", 2, begin_ms=10)))["next_ms"] == 11


@pytest.mark.parametrize("size", [3, 300, 3000])
@pytest.mark.parametrize("limit", [32, 64])
async def test_a_time_leaves_nothing_out_of_what_brokers_give_in_parts(
    size: int, limit: int
) -> None:
    keeping = Keeping({A: list(range(0, 200, 2)), B: list(range(1, 60, 2))}, size)
    seen: list[int] = []
    at: int | None = 0
    while at is not None:
        told = await find(keeping, Wish("t", limit, begin_ms=at, end_ms=150))
        page = [each["stored_ms"] for each in told["messages"]]
        assert page == sorted(page)
        assert len(page) <= limit
        seen += [ms for ms in page if ms > max(seen, default=-1)]
        at = told["next_ms"]
    assert seen == [*range(60), *range(60, 151, 2)]


@pytest.mark.parametrize("size", [3, 300, 3000])
@pytest.mark.parametrize("limit", [5, 32, 64])
async def test_the_newest_are_the_newest_whatever_a_broker_gives_at_once(
    size: int, limit: int
) -> None:
    keeping = Keeping({A: list(range(0, 200, 2)), B: list(range(1, 60, 2))}, size)
    told = await find(keeping, Wish("t", limit))
    newest = [*range(198, 58, -2), *range(59, -1, -1)]
    assert [each["stored_ms"] for each in told["messages"]] == newest[:limit]
    told = await find(keeping, Wish("t", limit, broker="b"))
    assert [each["stored_ms"] for each in told["messages"]] == [*range(59, -1, -2)][:limit]


async def test_what_does_not_fit_is_left_out_at_the_far_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.admin.rocketmq.messages.finding.ROOM", 12_000)
    keeping = Keeping({A: [*range(100)], B: [*range(90, 100)]}, 2400)
    told = await find(keeping, Wish("t", 32))
    assert [each["stored_ms"] for each in told["messages"]] == [99, 99, 98, 98, 97, 97]
    told = await find(keeping, Wish("t", 32, offset=0))
    assert [each["offset"] for each in told["messages"]] == [0, 0, 1, 1, 2, 2]
    told = await find(keeping, Wish("t", 32, begin_ms=90))
    assert [each["stored_ms"] for each in told["messages"]] == [90, 90, 91, 91, 92, 92]
    assert told["next_ms"] == 92


async def test_a_place_has_as_many_as_are_wished_for() -> None:
    keeping = Keeping({A: [*range(100)], B: []}, 300)
    told = await find(keeping, Wish("t", 64, queue=0, offset=10))
    assert [each["offset"] for each in told["messages"]] == [*range(10, 74)]


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
