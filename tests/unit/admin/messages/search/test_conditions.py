from __future__ import annotations

import json
import time

import pytest

from penstock.admin.messages.search.conditions import (
    BODY_MAX,
    LENGTH_MAX,
    JsonCondition,
    PathError,
    condition_of,
)
from penstock.net.http.server.api import ApiError

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
