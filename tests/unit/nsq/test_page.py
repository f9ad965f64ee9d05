"""Pages as nsqd's peek tells them."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from penstock.nsq.page import Page

MESSAGE = {"offset": 3, "id": "0", "timestamp": 1, "state": "queued", "attempts": 0, "size": 1}


def test_a_page() -> None:
    page = msgspec.convert({"messages": [MESSAGE], "next": 4, "later": 1}, Page)
    assert (page.messages[0].offset, page.messages[0].origin, page.next) == (3, UNSET, 4)


def test_what_is_none() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"messages": [{}]}, Page)
