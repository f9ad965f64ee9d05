from __future__ import annotations

import asyncio

import pytest

from penstock.net.http.server.api import json_response
from penstock.net.http.server.service import Later, Response
from tests.unit.admin.conftest import hang, until

from .conftest import Site, message

PAGE = {"messages": [message(3)], "next": 4}


async def test_a_channel_and_a_topic(site: Site) -> None:
    site.ours.answers |= {"/channel/peek": PAGE, "/topic/peek": {**PAGE, "next": None}}
    where = f"node={site.node}&topic=t"
    assert await site.get(f"/api/messages?{where}&channel=c&from=newest&limit=1&preview=65536") == (
        200,
        {"node": site.node, "topic": "t", "channel": "c", "messages": [message(3)], "next": 4,
         "message": ""},
    )  # fmt: skip
    status, found = await site.get(f"/api/messages?{where}")
    assert (status, found["next"], "channel" in found) == (200, None, False)
    assert site.asked() == [
        "GET /channel/peek?topic=t&channel=c&from=newest&limit=1&preview=65536",
        "GET /topic/peek?topic=t&limit=50",
    ]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("topic=t&channel=c", 400, "MISSING_ARG_NODE"),
        ("node={node}", 400, "MISSING_ARG_TOPIC"),
        ("topic=t&node=127.0.0.1:1", 404, "NODE_NOT_FOUND"),
        ("topic=t&node={lookupd}", 404, "NODE_NOT_FOUND"),
        ("topic=t&node={go}", 501, "NOT_OFFERED"),
        ("topic=t&node={node}&channel=c", 501, "NOT_OFFERED"),
        ("topic=%zz&node={node}", 400, "INVALID_REQUEST"),
    ],
)
async def test_refusals(site: Site, query: str, status: int, code: str) -> None:
    query = query.format(node=site.node, go=site.go, lookupd=site.lookupd.address)
    assert await site.get(f"/api/messages?{query}") == (status, {"message": code})


@pytest.mark.parametrize("answer", [Response(200, b"<html>"), {"messages": "none"}])
async def test_a_node_that_talks_nonsense(site: Site, answer: object) -> None:
    site.ours.answers["/topic/peek"] = answer
    status, found = await site.get(f"/api/messages?topic=t&node={site.node}")
    assert status == 502
    assert found["message"].startswith(f'UPSTREAM_ERROR: Get "http://{site.node}/topic/peek')


async def test_a_node_that_hangs(site: Site) -> None:
    site.ours.answers["/topic/peek"] = hang()
    nodes, site.lookupd.answers["/nodes"] = site.lookupd.answers["/nodes"], Later()
    asked = asyncio.ensure_future(site.get(f"/api/messages?topic=t&node={site.node}"))
    await until(lambda: bool(site.lookupd.asked))
    site.running.admin.asker._seconds = 0.2  # from the next request on, which is the node's
    site.lookupd.answers["/nodes"].complete(json_response(nodes))
    status, found = await asked
    assert status == 502
    assert found["message"].startswith(f'UPSTREAM_ERROR: Get "http://{site.node}/topic/peek')


async def test_nobody_tells_of_nodes(site: Site) -> None:
    site.lookupd.answers.clear()
    status, found = await site.get(f"/api/messages?topic=t&node={site.node}")
    assert status == 502
    assert found["message"].startswith("UPSTREAM_ERROR: failed to query any nsqlookupd")
