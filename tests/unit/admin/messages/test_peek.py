from __future__ import annotations

import msgspec
import pytest

from penstock.admin.messages.peek import Part, merge, shown
from penstock.cluster.fanout import Warnings
from penstock.core.gojson import dumps
from penstock.nsq.page import Message, Page


def part(node: str, first: int, *times: int, is_all: bool = True, back: bool = False) -> Part:
    """Messages from offset `first` on, published at these times."""
    messages = [Message(first + at, f"{node}{at}", time, "waiting", 0, 1)
                for at, time in enumerate(times)]  # fmt: skip
    end = first + len(times)
    return Part(node, end if back else first, messages, first if back else end, is_all)


def ids(messages: list[tuple[str, Message]]) -> list[str]:
    return [message.id for _, message in messages]


def test_messages_of_two_nodes_come_by_time() -> None:
    page = merge([part("a", 5, 10, 30, 50), part("b", 0, 20, 30, 40)], 9, back=False)
    assert ids(page.messages) == ["a0", "b0", "a1", "b1", "b2", "a2"]
    assert page.at == {"a": 8, "b": 3}


def test_a_page_ends_at_its_limit_and_goes_on_behind_it() -> None:
    page = merge([part("a", 5, 10, 30, 50), part("b", 0, 20, 30, 40)], 3, back=False)
    assert ids(page.messages) == ["a0", "b0", "a1"]
    assert page.at == {"a": 7, "b": 1}


def test_backwards_the_newest_are_taken_and_still_shown_oldest_first() -> None:
    parts = [part("a", 5, 10, 30, 50, back=True), part("b", 0, 20, 30, 40, back=True)]
    page = merge(parts, 3, back=True)
    assert ids(page.messages) == ["b1", "b2", "a2"] or ids(page.messages) == ["a1", "b2", "a2"]
    assert sum(page.at.values()) == 8 + 3 - 3


def test_pages_there_and_back_have_the_same_messages() -> None:
    later = merge([part("a", 0, 1, 1, 1), part("b", 0, 1, 1, 1)], 4, back=False)
    back = [part("a", 0, *[1] * later.at["a"], back=True),
            part("b", 0, *[1] * later.at["b"], back=True)]  # fmt: skip
    assert sorted(ids(merge(back, 4, back=True).messages)) == sorted(ids(later.messages))


def test_behind_a_share_that_ended_early_nothing_is_told() -> None:
    """What comes next on that node may be older than what others have."""
    page = merge([part("a", 0, 10, is_all=False), part("b", 0, 5, 20)], 9, back=False)
    assert ids(page.messages) == ["b0", "a0"]
    assert page.at == {"a": 1, "b": 1}


def test_a_share_without_messages_that_goes_on_stops_the_page() -> None:
    lost = Part("a", 0, [], 16, False)
    page = merge([lost, part("b", 0, 5)], 9, back=False)
    assert (page.messages, page.at) == ([], {"a": 16, "b": 0})
    over = Part("a", 3, [], 3, True)
    assert ids(merge([over, part("b", 0, 5)], 9, back=False).messages) == ["b0"]


def test_a_clock_that_was_set_back_keeps_the_order_of_the_log() -> None:
    page = merge([part("a", 0, 50, 10), part("b", 0, 20)], 9, back=False)
    assert ids(page.messages) == ["b0", "a0", "a1"]


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
