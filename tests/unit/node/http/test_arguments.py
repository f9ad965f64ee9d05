"""Parameters and bodies of Penstock's own endpoints; the endpoints' tests have their refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.broker.topic import Topic
from penstock.core.errors import OffsetOutOfRangeError
from penstock.core.units import SECOND
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, Query
from penstock.node.dialect import LogView
from penstock.node.http.api_arguments import duration_ns, number, out_of_range
from penstock.node.http.log_views import NSQ_VIEW, queue_named, view_for
from penstock.node.http.many_topics import TOPICS_MAX, change_each, names_in, offsets_in


@pytest.mark.parametrize(("text", "value"), [("", 7), ("n=0", 0), ("n=10", 10)])
def test_numbers(text: str, value: int) -> None:
    assert number(Query.parse(text.encode()), "n", 7, 10) == value


@pytest.mark.parametrize("text", ["n=", "n=11", "n=-1", "n=1.0", "n=%2B1", "n=x", "n=" + "9" * 30])
def test_no_numbers(text: str) -> None:
    with pytest.raises(ApiError, match="INVALID_ARG_N"):
        number(Query.parse(text.encode()), "n", 7, 10)


def test_out_of_range_tells_the_range() -> None:
    response = out_of_range(OffsetOutOfRangeError("t", 0, 9, 3, 5))
    assert response.status == 416
    assert isinstance(response.body, bytes)
    assert json.loads(response.body) == {"message": "OFFSET_OUT_OF_RANGE", "start": 3, "end": 5}


if TYPE_CHECKING:
    from penstock.node.dialect import Dialect


OTHER = cast(LogView, SimpleNamespace(dialect="other", queue_count=lambda topic: 12))
TOPIC = cast(Topic, None)


def view(query: bytes, *views: LogView) -> LogView:
    dialects = [SimpleNamespace(log_view=view) for view in views]
    return view_for(cast("Sequence[Dialect]", dialects), Query.parse(query))


def test_a_request_gets_the_view_that_it_asks_for() -> None:
    assert view(b"", OTHER) is NSQ_VIEW
    assert view(b"dialect=nsq", OTHER) is NSQ_VIEW
    assert view(b"dialect=other", OTHER) is OTHER


def test_a_dialect_that_nobody_speaks_is_refused() -> None:
    with pytest.raises(ApiError, match="DIALECT_NOT_SPOKEN") as refused:
        view(b"dialect=another", OTHER)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("0", 0),
        ("11", 11),
        ("12", None),
        ("011", None),
        ("-1", None),
        ("x", None),
        ("9" * 30, None),
    ],
)
def test_queues_are_named_by_their_numbers(name: str, queue: int | None) -> None:
    assert queue_named(OTHER, TOPIC, name) == queue
    assert queue_named(NSQ_VIEW, TOPIC, name) == (0 if name == "0" else None)


# --- Requests that name many topics in their body ------------------------------------------------


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


async def test_each_topic_has_its_own_answer_once_and_changes_are_written_together() -> None:
    seen: list[str] = []

    def change(name: str) -> Any:
        seen.append(name)
        if name == "bad":
            raise ApiError(409, "NO", owner="x")
        return None if name == "same" else name

    async def write_down(changed: Collection[Any]) -> set[str]:
        seen.append(f"write {' '.join(changed)}")
        return {"lost"} & set(changed)

    answers = await change_each(["a", "same", "bad", "lost", "a"], change, write_down)
    assert answers == {"topics": {
        "a": {}, "same": {}, "bad": {"message": "NO", "owner": "x"},
        "lost": {"message": "INTERNAL_ERROR"},
    }}  # fmt: skip
    assert seen == ["a", "same", "bad", "lost", "write a lost"]
    assert await change_each(["same"], change, write_down) == {"topics": {"same": {}}}
    assert len(seen) == 6, "there was nothing to write"


async def test_others_have_their_turn_between_many_topics() -> None:
    seen: list[str] = []

    def change(name: str) -> Any:
        seen.append(name)
        return None

    async def other() -> None:
        seen.append("other")

    async def write_down(changed: Collection[Any]) -> set[str]:
        raise AssertionError

    names = [f"t{number}" for number in range(60)]
    await asyncio.gather(change_each(names, change, write_down), other())
    assert seen == [*names[:49], "other", *names[49:]]


def test_a_duration_is_in_nanoseconds_and_named_when_it_is_wrong() -> None:
    assert duration_ns("since", "1h30m") == 90 * 60 * SECOND
    for wrong in ("-1s", "soon", ""):
        with pytest.raises(ApiError) as refused:
            duration_ns("retention_time", wrong)
        assert (refused.value.status, refused.value.code) == (400, "INVALID_ARG_RETENTION_TIME")
