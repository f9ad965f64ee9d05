from __future__ import annotations

import json

import pytest

from penstock.admin.messages.search.json_path import JsonCondition, PathError

ORDER = {
    "id": 42, "kind": "odd", "paid": True, "note": None, "total": 99.5, "number": "42",
    "items": [{"sku": "A-1", "count": 1}, {"sku": "B-2", "count": 3}],
    "any name": {"a.b": "x"}, "list": [1, "two", [3]], "empty": [],
}  # fmt: skip


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
