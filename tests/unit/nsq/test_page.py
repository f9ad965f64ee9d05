"""Pages as nsqd's peek tells them."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from penstock.nsq.page import Page, shown_body

MESSAGE = {"offset": 3, "id": "0", "timestamp": 1, "state": "queued", "attempts": 0, "size": 1}


def test_a_page() -> None:
    page = msgspec.convert({"messages": [MESSAGE], "next": 4, "later": 1}, Page)
    assert (page.messages[0].offset, page.messages[0].origin, page.next) == (3, UNSET, 4)


def test_what_is_none() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"messages": [{}]}, Page)


@pytest.mark.parametrize(
    ("body", "preview", "shown"),
    [
        (b"", 9, {"body": ""}),
        (b"text", 4, {"body": "text"}),
        (b"text", 3, {"body": "tex", "truncated": True}),
        ("Grüße".encode(), 3, {"body": "Gr", "truncated": True}),
        ("Grü".encode()[:3], 9, {"body_base64": "R3LD"}),
        (b"\xff\xfe", 1, {"body_base64": "/w==", "truncated": True}),
    ],
)
def test_a_body_in_json(body: bytes, preview: int, shown: dict[str, object]) -> None:
    assert shown_body(body, preview) == shown
