"""Requests that name many topics in their body."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.net.http.server.service import Request
from penstock.nsq.http_api import ApiError, Query
from penstock.nsq.nsqd.http.many_topics import TOPICS_MAX, change_each, names_in, offsets_in

NO_TOPIC = Query({})


def request(body: Any) -> Request:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    found: Any = type("FakeRequest", (), {"body": raw})()
    return found


def test_topics_of_a_body() -> None:
    assert names_in(request({"topics": ["b", "a"]}), NO_TOPIC) == ["b", "a"]
    assert names_in(request({"topics": []}), NO_TOPIC) == []
    offsets = {"b": {"0": 5}, "a": {}}
    assert offsets_in(request({"topics": offsets, "more": 1}), NO_TOPIC) == offsets


@pytest.mark.parametrize(
    ("body", "query"),
    [(b"", NO_TOPIC), ({}, NO_TOPIC), ({"offsets": {"0": 5}}, NO_TOPIC),
     ({"topics": ["a"]}, Query({"topic": "t"})), (b"{", Query({"topic": "t"}))],
)  # fmt: skip
def test_requests_that_name_one_topic_or_none(body: Any, query: Query) -> None:
    assert names_in(request(body), query) is None
    assert offsets_in(request(body), query) is None


@pytest.mark.parametrize(
    "body", [b"{", [], {"topics": None}, {"topics": [1]}, {"topics": {"a": 5}}]
)
def test_bodies_that_make_no_sense(body: Any) -> None:
    for read in (names_in, offsets_in):
        with pytest.raises(ApiError, match="INVALID_BODY"):
            read(request(body), NO_TOPIC)


def test_the_number_of_topics_is_bounded() -> None:
    names = [f"t{number}" for number in range(TOPICS_MAX)]
    assert names_in(request({"topics": names}), NO_TOPIC) == names
    too_many = [*names, "x"]
    for read, topics in ((names_in, too_many), (offsets_in, {name: {} for name in too_many})):
        with pytest.raises(ApiError) as raised:
            read(request({"topics": topics}), NO_TOPIC)
        assert raised.value.content == {"message": "TOO_MANY_TOPICS", "limit": TOPICS_MAX}


async def test_each_topic_has_its_own_answer_once_and_others_have_their_turn_after_a_wait() -> None:
    seen: list[str] = []

    def change(name: str) -> bool:
        seen.append(name)
        if name == "bad":
            raise ApiError(409, "NO", owner="x")
        return name == "slow"

    async def other() -> None:
        seen.append("other")

    change_all = change_each(["a", "slow", "bad", "a"], change)
    answers, _ = await asyncio.gather(change_all, other())
    assert answers == {"topics": {"a": {}, "slow": {}, "bad": {"message": "NO", "owner": "x"}}}
    assert seen == ["a", "slow", "other", "bad"]
