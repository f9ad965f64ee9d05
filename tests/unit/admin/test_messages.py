"""What requests about messages choose and search for, and pages of several nodes as one."""

from __future__ import annotations

import json
import time

import msgspec
import pytest
from msgspec import Struct

from penstock.admin.messages import choice
from penstock.admin.messages.choice import chosen_ids, read_body
from penstock.admin.messages.logs import NODES_MAX, Place, read_text, text_of, time_ns
from penstock.admin.messages.peek import NodePart, merge, shown
from penstock.admin.messages.search.conditions import (
    BODY_MAX,
    LENGTH_MAX,
    JsonCondition,
    PathError,
    condition_of,
)
from penstock.admin.messages.search.request import RequestLimit, WalkBody, condition
from penstock.cluster.fanout import Warnings
from penstock.core.gojson import dumps
from penstock.net.http.server.head import Head
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError
from penstock.nsq.page import Message, Page

ID = "4d20c5c1c8228885"


class Body(Struct):
    ids: list[str]


def request(body: bytes) -> Request:
    head = Head.__new__(Head)
    return Request(head, "", body, lambda: "")


def test_bodies() -> None:
    assert read_body(request(b'{"ids":["a"],"more":1}'), Body) == Body(["a"])
    for wrong in (b"", b"[]", b'{"ids":"a"}', b"{", b'{"ids":["\xff"]}', b"[" * 100_000):
        with pytest.raises(ApiError, match="INVALID_BODY"):
            read_body(request(wrong), Body)


def test_ids() -> None:
    assert chosen_ids([ID, "0" * 16, ID], False) == [ID, "0" * 16]
    assert chosen_ids([], True) == []


@pytest.mark.parametrize(
    ("ids", "is_all", "code"),
    [
        ([], False, "MISSING_IDS"),
        ([ID], True, "AMBIGUOUS_IDS"),
        ([ID.upper()], False, "INVALID_IDS"),
        ([ID + "\n"], False, "INVALID_IDS"),
        ([ID] * (choice.IDS_MAX + 1), False, "TOO_MANY_IDS"),
    ],
)
def test_wrong_ids(ids: list[str], is_all: bool, code: str) -> None:
    with pytest.raises(ApiError, match=code):
        chosen_ids(ids, is_all)


TWO = [Place("127.0.0.1:4151", 17, 90), Place("[::1]:4151", 0, 1 << 60)]


def test_a_text_leads_there_again() -> None:
    text = text_of("scan", TWO)
    assert text == f"scan:127.0.0.1:4151@17-90,[::1]:4151@0-{1 << 60}"
    assert read_text("scan", text) == {place.node: place for place in TWO}
    assert read_text("before", text) is read_text("before", "newest") is None


@pytest.mark.parametrize(
    "text",
    ["scan:", "scan:a", "scan:a@1", "scan:a@1-", "scan:a@-1-2", "scan:a@1-2,", "scan:a@1-2\n",
     f"scan:a@{10**19}-1", "scan:" + ",".join(f"a{number}@1-2" for number in range(NODES_MAX + 1))],
)  # fmt: skip
def test_what_leads_nowhere_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match="INVALID_ARG_FROM"):
        read_text("scan", text)


def test_times() -> None:
    assert time_ns("time:5") == 5_000_000
    assert time_ns("time:9999999999999") == (1 << 63) - 1
    assert time_ns("5") is time_ns("time:x") is None


def part(node: str, first: int, *times: int, is_all: bool = True, back: bool = False) -> NodePart:
    """Messages from offset `first` on, published at these times."""
    messages = [Message(first + at, f"{node}{at}", time, "waiting", 0, 1)
                for at, time in enumerate(times)]  # fmt: skip
    end = first + len(times)
    return NodePart(node, end if back else first, messages, first if back else end, is_all)


def ids_of(messages: list[tuple[str, Message]]) -> list[str]:
    return [message.id for _, message in messages]


@pytest.mark.parametrize(
    ("a", "b", "limit", "ids", "at"),
    [
        (part("a", 5, 10, 30, 50), part("b", 0, 20, 30, 40), 9, "a0 b0 a1 b1 b2 a2", (8, 3)),
        (part("a", 5, 10, 30, 50), part("b", 0, 20, 30, 40), 3, "a0 b0 a1", (7, 1)),
        # What comes next on that node may be older than what others have.
        (part("a", 0, 10, is_all=False), part("b", 0, 5, 20), 9, "b0 a0", (1, 1)),
        (NodePart("a", 0, [], 16, False), part("b", 0, 5), 9, "", (16, 0)),
        (NodePart("a", 3, [], 3, True), part("b", 0, 5), 9, "b0", (3, 1)),
        (part("a", 0, 50, 10), part("b", 0, 20), 9, "b0 a0 a1", (2, 1)),
    ],
    ids=["by time", "limit", "a ends early", "a has none yet", "a is over", "clock set back"],
)
def test_a_page_of_two_nodes(
    a: NodePart, b: NodePart, limit: int, ids: str, at: tuple[int, int]
) -> None:
    page = merge([a, b], limit, back=False)
    assert ids_of(page.messages) == ids.split()
    assert page.at == dict(zip("ab", at, strict=True))


def test_backwards_the_newest_are_taken_and_still_shown_oldest_first() -> None:
    parts = [part("a", 5, 10, 30, 50, back=True), part("b", 0, 20, 30, 40, back=True)]
    page = merge(parts, 3, back=True)
    assert ids_of(page.messages) in (["b1", "b2", "a2"], ["a1", "b2", "a2"])
    assert sum(page.at.values()) == 8 + 3 - 3


def test_pages_there_and_back_have_the_same_messages() -> None:
    later = merge([part("a", 0, 1, 1, 1), part("b", 0, 1, 1, 1)], 4, back=False)
    back = [part("a", 0, *[1] * later.at["a"], back=True),
            part("b", 0, *[1] * later.at["b"], back=True)]  # fmt: skip
    assert sorted(ids_of(merge(back, 4, back=True).messages)) == sorted(ids_of(later.messages))


MESSAGE = {"offset": 0, "id": "0" * 16, "timestamp": 10**18, "state": "waiting", "attempts": 0,
           "size": 1, "body": "x"}  # fmt: skip


def test_what_nodes_tell_is_handed_on() -> None:
    origin = {"topic": "t", "channel": "c", "id": "0" * 16, "attempts": 5, "dead_since": 7}
    told = {"topic": "x", "count": 9, "next": "1.2",
            "messages": [{**MESSAGE, "deadline": 5, "remaining_ms": 1, "origin": origin,
                          "truncated": True}],
            "unknown": 1}  # fmt: skip
    page = msgspec.convert(told, Page)
    found = msgspec.json.decode(dumps(shown(page, Warnings(), node="n:1")))
    assert found == {"node": "n:1", "count": 9, "messages": told["messages"], "next": "1.2",
                     "message": ""}  # fmt: skip
    assert "count" not in shown(Page([]), Warnings())


def test_what_is_no_message_is_not() -> None:
    for wrong in ({"offset": "1"}, {"size": None}, {"body": 5}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"messages": [MESSAGE | wrong]}, Page)


SIZE = BODY_MAX // 8
CPU_S_MAX = 5.0
"""Far more than any of them takes of the processor; without bounds they take ages."""
ORDER = {
    "id": 42, "kind": "odd", "paid": True, "note": None, "total": 99.5, "number": "42",
    "items": [{"sku": "A-1", "count": 1}, {"sku": "B-2", "count": 3}],
    "any name": {"a.b": "x"}, "list": [1, "two", [3]], "empty": [],
}  # fmt: skip


def test_a_text_is_found_in_any_case_of_its_letters() -> None:
    takes = condition_of("text", "Grüße (1+1)")
    assert takes("viele GRÜSSE grüße (1+1)!".encode())
    assert takes(b"\xff\xfe" + "GRÜßE (1+1)".encode())
    assert not takes("grüße 11".encode())


def test_a_regular_expression_minds_the_case() -> None:
    takes = condition_of("regex", r"error (\d+)$")
    assert takes(b"an error 42")
    assert not takes(b"an ERROR 42")
    assert condition_of("regex", "(?i)ERROR")(b"an error")


def test_a_field_of_json() -> None:
    assert condition_of("json", "id > 41")(b'{"id":42}')


def test_of_a_long_body_the_beginning_is_looked_at() -> None:
    body = b'"' + b"x" * BODY_MAX + b'needle"'
    assert not condition_of("text", "needle")(body)
    assert not condition_of("json", "$")(body)
    assert condition_of("text", "x")(body)


@pytest.mark.parametrize(
    ("kind", "what", "code"),
    [
        ("glob", "x", "INVALID_ARG_KIND"),
        ("text", "", "MISSING_ARG_WHAT"),
        ("text", "x" * (LENGTH_MAX + 1), "INVALID_ARG_WHAT: longer than 1000 characters"),
        ("regex", "(a", "INVALID_ARG_WHAT: missing \\)"),
        ("regex", r"(a)\1", "INVALID_ARG_WHAT: invalid escape sequence"),
        ("regex", "(a?){900}a{900}", "INVALID_ARG_WHAT: the expression is too large"),
        ("regex", r"((\pL{100}){10}){10}", "INVALID_ARG_WHAT"),
        ("json", "a b", "INVALID_ARG_WHAT: not understood from ' b' on"),
    ],
)
def test_what_cannot_be_searched_for(kind: str, what: str, code: str) -> None:
    with pytest.raises(ApiError, match=code) as refused:
        condition_of(kind, what)
    assert refused.value.status == 400


@pytest.mark.parametrize("what", ["(x+x+)+y", "(a|a)*b", "(.*)*c", "((a{1,30}){1,30})z"])
def test_an_expression_that_is_made_to_run_for_ever_ends(what: str) -> None:
    takes, began = condition_of("regex", what), time.thread_time()
    assert not takes(b"a" * SIZE if "x" not in what else b"x" * SIZE)
    assert time.thread_time() - began < CPU_S_MAX


@pytest.mark.parametrize(
    "given",
    ["id", "$.id", "$", "$.id = 42", "id==42", "id=42.0", "kind = odd", 'kind = "odd"', "id != 41",
     "paid = true", "note = null", "note", "total > 99", "total>=99.5", "total < 1e3", "id <= 42",
     "items[1].sku = B-2", "items[*].sku = B-2", "$.items[*].count > 2", "items.*.sku",
     '["any name"]["a.b"] = x', '$["any name"].*', "list[2][0] = 3", "kind > abc", "number = 42",
     "$[\"kind\"]", 'items[0] = {"sku":"A-1","count":1}', "empty = []", " = 1 "[:0] + "$.list[*]"],
)  # fmt: skip
def test_what_an_order_has(given: str) -> None:
    assert JsonCondition.parse(given)(json.dumps(ORDER).encode())


@pytest.mark.parametrize(
    "given",
    ["no", "id = 41", "id = forty-two", "id != 42", "paid = 1", "paid = yes", "note = 0",
     "kind > 5", "items[2]", "items[0].no", "items.sku", "list[*] = 9", "empty[*]", "total > 99.5",
     "id.x", "id = true", "items > 1"],
)  # fmt: skip
def test_what_it_has_not(given: str) -> None:
    assert not JsonCondition.parse(given)(json.dumps(ORDER).encode())


@pytest.mark.parametrize("body", [b"", b"no json", b"\xff", b"[" * 100_000, b'{"id":42} more'])
def test_what_is_no_json_has_no_field(body: bytes) -> None:
    assert not JsonCondition.parse("$")(body)
    assert not JsonCondition.parse("id")(body)


def test_an_array_at_the_root() -> None:
    assert JsonCondition.parse("[1]")(b"[1,2]")
    assert JsonCondition.parse("$[*] = 2")(b"[1,2]")
    assert not JsonCondition.parse("[2]")(b"[1,2]")


@pytest.mark.parametrize(
    "given",
    ["", " ", "=1", "a b", "$..a", "a[", "a[-1]", "a[x]", 'a["b]', "a =", "a ~ b", 'a["\\x"]',
     "." * 5, "a" + ".b" * 40],
)  # fmt: skip
def test_what_is_no_condition(given: str) -> None:
    with pytest.raises(PathError):
        JsonCondition.parse(given)


def test_room_is_bounded_and_given_back() -> None:
    room = RequestLimit(2, "TOO_MANY")
    for _ in range(3):
        with pytest.raises(KeyError), room.taken():
            raise KeyError
    with room.taken(), room.taken(), pytest.raises(ApiError, match="TOO_MANY") as refused:  # noqa: SIM117
        with room.taken():
            pass
    assert refused.value.status == 503


def test_all_is_no_condition() -> None:
    assert condition(WalkBody("t", kind="all")) is None
    with pytest.raises(ApiError, match="INVALID_ARG_KIND"):
        condition(WalkBody("t", kind="some"))
