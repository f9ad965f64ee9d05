"""Search over real nodes: what is found, in which order, and how little one request does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.admin.messages.search import conditions
from penstock.admin.messages.search.walk import Budget
from penstock.net.http.server.service import Later
from tests.programs.admin.messages.conftest import Pair, Site
from tests.unit.admin.conftest import until
from tests.unit.cli.nodes_at_work import publish

PATH = "/api/messages/search"


@pytest.fixture(scope="module", autouse=True)
def orders(real_nodes: list[Any]) -> None:
    """300 orders on two nodes, in batches."""
    for number in range(0, 300, 10):
        lines = [json.dumps({"id": n, "kind": ("even", "odd")[n % 2]}) for n in
                 range(number, number + 10)]  # fmt: skip
        publish(real_nodes[number // 10 % 2], "orders", [line.encode() for line in lines])


async def found(pair: Pair, **wish: Any) -> dict[str, Any]:
    status, answer = await pair.post(PATH, {"topic": "orders", **wish}, user="")
    assert status == 200, answer
    return dict(answer)


def ids(answer: dict[str, Any]) -> list[int]:
    return [json.loads(each["body"])["id"] for each in answer["messages"]]


async def test_a_text_a_field_and_an_expression(pair: Pair) -> None:
    assert ids(await found(pair, kind="text", what='"ID":17,')) == []
    assert ids(await found(pair, kind="text", what='"ID": 17,')) == [17]
    assert ids(await found(pair, kind="json", what="$.id >= 297")) == [297, 298, 299]
    assert ids(await found(pair, kind="regex", what=r'id": \d\d?5,')) == [*range(15, 300, 10)]


async def test_it_is_over_all_nodes_by_time_and_says_how_much_it_looked_at(pair: Pair) -> None:
    answer = await found(pair, kind="json", what="kind = odd", limit=200)
    assert ids(answer) == [*range(1, 300, 2)]
    assert (answer["looked_at"], answer["left"], answer["next"]) == (300, 0, None)
    assert answer["found"] == 150
    assert {each["node"] for each in answer["messages"]} == set(pair.names)


async def test_it_goes_on_behind_what_it_has_found(pair: Pair) -> None:
    answer = await found(pair, kind="json", what="kind = odd", limit=7)
    seen = ids(answer)
    while answer["next"]:
        assert answer["left"] > 0
        answer = await found(
            pair, kind="json", what="kind = odd", limit=7, **{"from": answer["next"]}
        )
        seen += ids(answer)
    assert seen == [*range(1, 300, 2)]


async def test_what_comes_later_is_not_part_of_it(pair: Pair) -> None:
    first = await found(pair, kind="json", what="id", limit=1)
    publish(pair.nodes[0], "orders", [b'{"id": 1000}'])
    rest = await found(pair, kind="json", what="id", limit=0, **{"from": first["next"]})
    assert rest["found"] == 299


async def test_counting_shows_nothing(pair: Pair) -> None:
    answer = await found(pair, kind="json", what="id < 10", limit=0)
    assert (answer["found"], answer["messages"]) == (10, [])
    assert answer["found_bytes"] == sum(len(json.dumps({"id": n, "kind": ("even", "odd")[n % 2]}))
                                        for n in range(10))  # fmt: skip


async def test_between_two_times_and_on_one_node(pair: Pair) -> None:
    page = await found(pair, kind="json", what="id < 300", limit=200)
    at = {json.loads(each["body"])["id"]: each["timestamp"] for each in page["messages"]}
    since, until_ = at[100] // 1_000_000, at[199] // 1_000_000
    answer = await found(pair, kind="json", what="id", limit=200,
                         **{"from": f"time:{since}", "until": f"time:{until_}"})  # fmt: skip
    assert set(ids(answer)) == {n for n, ns in at.items() if since <= ns / 1e6 < until_}
    answer = await found(pair, kind="json", what="id = 15", node=pair.names[0])
    assert ids(answer) == []
    assert ids(await found(pair, kind="json", what="id = 15", node=pair.names[1])) == [15]


@pytest.mark.parametrize("budget", [{"messages": 20}, {"nbytes": 300}, {"seconds": 0.0}])
async def test_one_request_does_little(
    pair: Pair, budget: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.admin.messages.search.walk.PIECE_MESSAGES", 16)
    for name, value in budget.items():
        defaults = dict(Budget._field_defaults, **{name: value})
        fields = [defaults[each] for each in Budget._fields if each in defaults]
        monkeypatch.setattr(Budget.__new__, "__defaults__", tuple(fields))
    answer = await found(pair, kind="text", what="nothing like it")
    assert 0 < answer["looked_at"] < 40
    assert answer["left"] == 301 - answer["looked_at"]


async def test_others_are_served_while_an_expression_takes_its_time(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The condition never ends by itself here: only another request lets it go."""
    import threading

    begun, may_end = threading.Event(), threading.Event()

    def takes(body: bytes) -> bool:
        begun.set()
        assert may_end.wait(60), "the loop did not run meanwhile"
        return False

    monkeypatch.setitem(conditions._KINDS, "text", lambda what: takes)
    search = asyncio.ensure_future(found(pair, kind="text", what="x"))
    await until(begun.is_set)
    assert (await pair.get("/api/topics"))[0] == 200
    may_end.set()
    assert (await search)["found"] == 0


async def test_few_at_the_same_time(site: Site) -> None:
    late = Later()
    site.ours.answers["/log/offsets"] = late
    body = {"topic": "t", "kind": "text", "what": "x"}
    searches = [asyncio.ensure_future(site.post(PATH, body)) for _ in range(4)]
    await until(lambda: len([each for each in site.asked() if "/log/" in each]) == 4)
    assert await site.post(PATH, body) == (503, {"message": "TOO_MANY_SEARCHES"})
    for search in searches:
        search.cancel()


async def test_a_go_nsqd_is_told_of(pair: Pair) -> None:
    status, answer = await pair.post(PATH, {"topic": "t", "kind": "text", "what": "m39"})
    assert (status, [each["body"] for each in answer["messages"]]) == (200, ["m39"])
    assert "keeps no log to look into: it is a Go nsqd" in answer["message"]


async def test_a_node_that_fails_midway_is_left_out_with_a_warning(site: Site) -> None:
    site.ours.answers |= {"/log/offsets": {"queues": [{"start": 0, "end": 90}]}}
    status, answer = await site.post(PATH, {"topic": "t", "kind": "text", "what": "x"})
    assert (status, answer["next"], answer["left"]) == (200, None, 0)
    assert "what is left on this node is not searched" in answer["message"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"kind": "text", "what": "x"}, 400, "MISSING_ARG_TOPIC"),
        ({"topic": "t", "kind": "sql", "what": "x"}, 400, "INVALID_ARG_KIND"),
        ({"topic": "t", "kind": "text"}, 400, "MISSING_ARG_WHAT"),
        ({"topic": "t", "kind": "regex", "what": "("}, 400, "INVALID_ARG_WHAT: missing ): ("),
        ({"topic": "t", "kind": "text", "what": "x", "from": "scan:x"}, 400, "INVALID_ARG_FROM"),
        ({"topic": "t", "kind": "text", "what": "x", "until": "ever"}, 400, "INVALID_ARG_FROM"),
        ({"topic": "t", "kind": "text", "what": "x", "node": "127.0.0.1:1"}, 404, "NODE_NOT_FOUND"),
        ({"topic": "none", "kind": "text", "what": "x"}, 404, "TOPIC_NOT_FOUND"),
        ({"topic": "t", "limit": "many"}, 400, "INVALID_BODY"),
    ],
)
async def test_refusals(pair: Pair, body: dict[str, Any], status: int, code: str) -> None:
    assert await pair.post(PATH, body) == (status, {"message": code})
