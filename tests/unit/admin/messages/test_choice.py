from __future__ import annotations

import pytest
from msgspec import Struct

from penstock.admin.messages import choice
from penstock.admin.messages.choice import chosen_ids, read_body
from penstock.net.http.server.api import ApiError
from penstock.net.http.server.head import Head
from penstock.net.http.server.service import Request

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
