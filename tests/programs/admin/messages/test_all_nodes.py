"""Pages of a topic over all nodes: by time, there and back, from a time on."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from .conftest import Pair, Site, message

ALL = [f"m{number}" for number in range(40)]


def bodies(page: dict[str, Any]) -> list[str]:
    return [each["body"] for each in page["messages"]]


async def at(pair: Pair, start: str, limit: int = 15) -> dict[str, Any]:
    path = f"/api/messages?topic=t&from={quote(start)}&limit={limit}"
    status, page = await pair.get(path)
    assert status == 200, page
    return dict(page)


async def test_the_messages_of_all_nodes_come_by_time(pair: Pair) -> None:
    page = await at(pair, "oldest", 200)
    assert bodies(page) == ALL
    assert [each["node"] for each in page["messages"][:4]] == pair.names * 2
    assert (page["earlier"], page["later"]) == (None, None)


async def test_a_go_nsqd_is_told_of_as_having_no_log(pair: Pair) -> None:
    page = await at(pair, "oldest")
    assert page["message"] == (
        f"WARNING: {pair.go.address} keeps no log to look into: it is a Go nsqd, or of an older "
        "version"
    )
    assert page["nodes"] == pair.names


async def test_forth_and_back_through_all_pages(pair: Pair) -> None:
    page = await at(pair, "oldest")
    seen = bodies(page)
    while page["later"] is not None:
        page = await at(pair, page["later"])
        seen += bodies(page)
    assert seen == ALL
    seen = bodies(page)
    while page["earlier"] is not None:
        page = await at(pair, page["earlier"])
        seen = bodies(page) + seen
    assert seen == ALL


async def test_the_newest(pair: Pair) -> None:
    page = await at(pair, "newest", 7)
    assert (bodies(page), page["later"]) == (ALL[-7:], None)
    page = await at(pair, page["earlier"], 7)
    assert bodies(page) == ALL[-14:-7]


async def test_from_a_time_on(pair: Pair) -> None:
    tenth = (await at(pair, "oldest", 11))["messages"][-1]
    ms = tenth["timestamp"] // 1_000_000
    page = await at(pair, f"time:{ms}", 200)
    assert bodies(page) == [each for each in ALL if each in bodies(page)]
    assert all(each["timestamp"] >= ms * 1_000_000 for each in page["messages"])
    assert "m10" in bodies(page)
    assert page["earlier"] is not None
    assert bodies(await at(pair, "time:9999999999999")) == []
    assert bodies(await at(pair, "time:0", 200)) == ALL


async def test_from_a_time_on_on_one_node(pair: Pair) -> None:
    tenth = (await at(pair, "oldest", 11))["messages"][-1]
    ms = tenth["timestamp"] // 1_000_000
    path = f"/api/messages?topic=t&node={pair.names[0]}&from=time:{ms}&limit=1000"
    _, page = await pair.get(path)
    assert all(each["timestamp"] >= ms * 1_000_000 for each in page["messages"])
    assert "m10" in bodies(page)


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("topic=t&from=yesterday", 400, "INVALID_ARG_FROM"),
        ("topic=t&from=5", 400, "INVALID_ARG_FROM"),
        ("topic=t&from=after:127.0.0.1:1", 400, "INVALID_ARG_FROM"),
        ("topic=t&limit=all", 400, "INVALID_ARG_LIMIT"),
        ("topic=none", 404, "TOPIC_NOT_FOUND"),
    ],
)
async def test_refusals(pair: Pair, query: str, status: int, code: str) -> None:
    assert await pair.get(f"/api/messages?{query}") == (status, {"message": code})


async def test_a_place_on_a_stranger_is_not_asked(pair: Pair, site: Site) -> None:
    asked = list(site.ours.asked)
    page = await at(pair, f"after:{site.node}@0-0,{pair.names[1]}@3-3", 2)
    assert bodies(page) == ["m7", "m9"]
    assert site.ours.asked == asked


async def test_without_a_log_anywhere(site: Site) -> None:
    """Neither of the scripted nodes answers what only ours do."""
    assert await site.get("/api/messages?topic=t") == (501, {"message": "NOT_OFFERED"})


async def test_a_node_that_ends_its_page_early(site: Site) -> None:
    """Backwards it tells of what is furthest away; what is asked for is brought down to less."""
    site.ours.answers |= {"/log/offsets": {"queues": [{"start": 0, "end": 90}]}}
    peek = "/topic/peek?topic=t&from={}&limit={}"
    site.ours.answers[peek.format(60, 30)] = {"messages": [message(60)], "next": 64}
    site.ours.answers[peek.format(86, 4)] = {"messages": [message(n) for n in (86, 88)],
                                             "next": None}  # fmt: skip
    status, page = await site.get("/api/messages?topic=t&from=newest&limit=30")
    assert (status, [each["offset"] for each in page["messages"]]) == (200, [86, 88])
    assert page["earlier"] == f"before:{site.node}@86-86"


async def test_a_node_that_does_not_answer_is_a_warning(pair: Pair, site: Site) -> None:
    pair.go.answers["/log/offsets"] = {"queues": []}
    page = await at(pair, "oldest", 200)
    assert bodies(page) == ALL
    assert "the answer is not what is expected" in page["message"]
