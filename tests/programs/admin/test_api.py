from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.net.http.server.api import plain_response
from tests.unit.admin.conftest import TIMEOUT_S, Running, StartAdmin, Two, channel, hang, topic


@pytest.fixture
async def running(two: Two, admin: StartAdmin) -> Running:
    return await admin(lookupd_http_addresses=(two.lookupd.address,))


@pytest.fixture
async def direct(two: Two, admin: StartAdmin) -> Running:
    nodes = tuple(each.address for each in two.nsqds)
    return await admin(nsqd_http_addresses=nodes)


async def test_topics(running: Running, two: Two) -> None:
    assert await running.ask("GET", "/api/topics") == (200, '{"topics":["t"],"message":""}')
    two.lookupd.answers["/topics"] = {"topics": []}
    assert await running.ask("GET", "/api/topics") == (200, '{"topics":null,"message":""}')
    two.lookupd.answers |= {"/topics": {"topics": ["i"]}, "/lookup": {"producers": []}}
    expected = '{"topics":{"i":["c"]},"message":""}'
    assert await running.ask("GET", "/api/topics?inactive=true") == (200, expected)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("a;b", "invalid semicolon separator in query"),
        ("x=1&inactive=%zz", 'invalid URL escape \\"%zz\\"'),
        ("inactive=%", 'invalid URL escape \\"%\\"'),
    ],
)
async def test_a_bad_query(running: Running, query: str, text: str) -> None:
    status, body = await running.ask("GET", f"/api/topics?{query}")
    assert (status, body) == (400, f'{{"message":"{text}"}}')


async def test_a_topic(running: Running) -> None:
    found = await running.get("/api/topics/t")
    assert (found["node"], found["message_count"], found["message"]) == ("*", 8, "")
    assert [each["hostname"] for each in found["nodes"]] == ["a", "b"]
    assert list(found)[-1] == "message"


async def test_a_channel(running: Running) -> None:
    found = await running.get("/api/topics/t/c")
    assert (found["depth"], found["memory_depth"]) == (8, 6)
    assert await running.ask("GET", "/api/topics/t/d") == (404, '{"message":"CHANNEL_NOT_FOUND"}')


async def test_without_producers(running: Running, direct: Running, two: Two) -> None:
    two.lookupd.answers["/lookup"] = {"producers": []}
    assert (await running.get("/api/topics/t"))["nodes"] == []
    assert (await running.ask("GET", "/api/topics/t/c"))[0] == 404
    assert await direct.ask("GET", "/api/topics/u") == (404, '{"message":"TOPIC_NOT_FOUND"}')


async def test_nodes(running: Running, two: Two) -> None:
    nodes = (await running.get("/api/nodes"))["nodes"]
    assert [each["hostname"] for each in nodes] == ["a", "b"]
    bare = (await running.get("/api/nodes?topics=false"))["nodes"]
    assert bare == [{**each, "topics": None} for each in nodes]
    node = two.nsqds[0].address
    stats = topic("t", channel("c", clients=[{"client_id": "x"}, {}]), message_count=7)
    two.nsqds[0].answers["/stats"] = {"topics": [stats]}
    found = await running.get(f"/api/nodes/{node}")
    assert list(found) == ["node", "topics", "total_messages", "total_clients", "message"]
    assert (found["node"], found["total_messages"], found["total_clients"]) == (node, 7, 2)
    assert await running.ask("GET", "/api/nodes/x:1") == (404, '{"message":"NODE_NOT_FOUND"}')


async def test_the_counter(running: Running, two: Two) -> None:
    stats = (await running.get("/api/counter"))["stats"]
    key = f"t:c:{two.nsqds[0].address}"
    assert stats[key] == {"node": two.nsqds[0].address, "topic_name": "t", "channel_name": "c",
                          "message_count": 5}  # fmt: skip
    two.lookupd.answers["/nodes"] = {"producers": []}
    assert await running.ask("GET", "/api/counter") == (200, '{"stats":{},"message":""}')


async def test_one_node_hangs_and_one_answers_nonsense(direct: Running, two: Two) -> None:
    """What the others say is told, and a warning."""
    two.nsqds[0].answers["/stats"] = hang()
    asker = direct.admin.asker
    asker._seconds, patience = 1.0, asker._seconds
    found: dict[str, Any] = {}
    async with asyncio.timeout(TIMEOUT_S):
        while "message_count" not in found:  # on a busy machine none may answer within the second
            found = json.loads((await direct.ask("GET", "/api/topics/t"))[1])
    asker._seconds = patience
    assert found["message_count"] == 3
    assert found["message"].startswith("WARNING: Get ")
    assert "context deadline exceeded" in found["message"]
    two.nsqds[0].answers["/stats"] = plain_response("<html>")
    found = await direct.get("/api/counter")
    assert len(found["stats"]) == 1
    assert "the answer is not what is expected" in found["message"]


async def test_who_cannot_be_asked_may_have_it(direct: Running, two: Two) -> None:
    two.nsqds[0].answers["/stats"] = plain_response("", 500)
    for path in ("/api/topics/u", "/api/topics/u/c", "/api/topics/t/other"):
        status, body = await direct.ask("GET", path)
        assert status == 502
        assert "UPSTREAM_ERROR: got response 500" in body


async def test_names_that_attack_a_page_or_a_parser(running: Running, two: Two) -> None:
    """Go escapes these in JSON; nothing of them gets into a query unescaped."""
    evil = "%3Cscript%3E%26%23%ff"
    status, body = await running.ask("GET", f"/api/topics/{evil}")
    assert status == 200
    assert "<" not in body
    assert json.loads(body)["topic_name"] == "<script>&#\ufffd"
    assert two.lookupd.asked == ["GET /lookup?topic=%3Cscript%3E%26%23%EF%BF%BD"]
    two.nsqds[0].answers["/stats"] = {"topics": [topic("t", channel("</script>\u2028"))]}
    _, body = await running.ask("GET", "/api/topics/t")
    assert r"\u003c/script\u003e\u2028" in body


@pytest.mark.parametrize(
    "path",
    [
        "damage?topic=%ff", "groups?topic=%ff", "messages?topic=%ff", "rewind?topic=%ff&channel=c"
        "&from=oldest", "topics/%ff", "topics/%ff/c",
    ],
)  # fmt: skip
async def test_a_name_that_is_no_utf_8_is_nobodys(two: Two, admin: StartAdmin, path: str) -> None:
    running = await admin(nsqd_http_addresses=tuple(each.address for each in two.nsqds))
    status, body = await running.ask("GET", f"/api/{path}")
    assert status in (200, 404), body
