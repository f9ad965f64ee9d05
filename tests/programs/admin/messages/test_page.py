from __future__ import annotations

import msgspec
import pytest

from penstock.admin.messages.page import shown
from penstock.cluster.fanout import Warnings
from penstock.core.gojson import dumps
from penstock.nsq.page import Page

from .conftest import message


def test_what_nodes_tell_is_handed_on() -> None:
    origin = {"topic": "t", "channel": "c", "id": "0" * 16, "attempts": 5, "dead_since": 7}
    told = {"topic": "x", "count": 9, "next": "1.2",
            "messages": [message(0, deadline=5, remaining_ms=1, origin=origin, truncated=True)],
            "unknown": 1}  # fmt: skip
    page = msgspec.convert(told, Page)
    found = msgspec.json.decode(dumps(shown(page, Warnings(), node="n:1")))
    assert found == {"node": "n:1", "count": 9, "messages": told["messages"], "next": "1.2",
                     "message": ""}  # fmt: skip
    assert "count" not in shown(Page([]), Warnings())


def test_what_is_no_message_is_not() -> None:
    for wrong in ({"offset": "1"}, {"size": None}, {"body": 5}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"messages": [{**message(0), **wrong}]}, Page)
