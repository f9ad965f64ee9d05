"""Messages of a topic: of one node and of all, as they wait, are deferred or lie in the log."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from penstock.admin.messages.known_nodes import KnownNodes, answered, refusal
from penstock.admin.messages.logs import Logs, begin, logs_of
from penstock.cluster.exchange import Endpoint
from penstock.cluster.fanout import Warnings
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import (
    GO,
    NoAnswerError,
    RefusedError,
    SentRequest,
    UpstreamError,
)
from penstock.log_api.bounds import Bounds
from penstock.net.http.server.service import DeferredResponse, Response
from penstock.net.http.server.v1_api import ApiError, json_response
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.testing.daemons import Daemon
from tests.programs.admin.messages.conftest import Pair, Site, message
from tests.unit.admin.conftest import StartAdmin, StartFake, Two, hang, topic, until


async def test_under_a_base_path(two: Two, admin: StartAdmin) -> None:
    running = await admin(lookupd_http_addresses=(two.lookupd.address,), base_path="/nsq")
    assert await running.ask("GET", "/nsq/api/deadletters") == (200, '{"topics":[],"message":""}')
    assert (await running.ask("GET", "/api/deadletters"))[0] == 404


@pytest.mark.parametrize("action", ["cancel", "release"])
async def test_what_is_done_to_deferred_messages_is_told(
    two: Two, fake: StartFake, admin: StartAdmin, action: str
) -> None:
    sink = await fake()
    two.nsqds[0].answers[f"/channel/deferred/{action}"] = {"not_found": []}
    running = await admin(
        lookupd_http_addresses=(two.lookupd.address,),
        notification_http_endpoint=f"http://{sink.address}/n",
    )
    node = two.nsqds[0].address
    body = {"action": action, "topic": "t", "channel": "c", "node": node, "all": True}
    assert (await running.ask("POST", "/api/deferred", body))[0] == 200
    await until(lambda: bool(sink.bodies))
    told = f'{{"action":"{action}_deferred","topic":"t","channel":"c","node":"{node}",'
    assert sink.bodies[0].decode().startswith(told)


async def test_a_resend_is_told(dead: Daemon, fake: StartFake, admin: StartAdmin) -> None:
    sink = await fake()
    running = await admin(
        nsqd_http_addresses=(dead.http,), notification_http_endpoint=f"http://{sink.address}/n"
    )
    body = {"action": "resend", "all": True, "node": dead.http}
    assert (await running.ask("POST", "/api/deadletters/orders.dead", body))[0] == 200
    await until(lambda: bool(sink.bodies))
    told = (f'{{"action":"resend_dead_letters","topic":"orders.dead","channel":"{CHANNEL}",'
            f'"node":"{dead.http}",')  # fmt: skip
    assert sink.bodies[0].decode().startswith(told)


def refused(status: int, body: bytes) -> RefusedError:
    return RefusedError(GO, SentRequest("GET", Endpoint.of("h:1"), "/"), status, body)


async def test_only_nodes_of_the_cluster(two: Two) -> None:
    nodes, known = KnownNodes(two.cluster), two.nsqds[0].address
    warnings = Warnings()
    # One that was given is known without asking.
    assert await KnownNodes(two.direct).address(known, warnings) == known
    assert two.nsqds[0].asked == []
    assert (await nodes.named(known, warnings)).http_address == known
    assert await nodes.address(known, warnings) == known
    assert [each.http_address for each in await nodes.all(warnings)] == [
        each.address for each in two.nsqds
    ]
    for stranger in (two.lookupd.address, "169.254.169.254:80", "", f"{known}/x", f"{known}#"):
        with pytest.raises(ApiError, match="NODE_NOT_FOUND"):
            await nodes.address(stranger, warnings)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (refused(404, b'{"message":"NOT_FOUND"}'), 501, "NOT_OFFERED"),
        (refused(404, b'{"message":"TOPIC_NOT_FOUND"}'), 404, "TOPIC_NOT_FOUND"),
        (refused(400, b'{"message":"INVALID_ARG_LIMIT"}'), 400, "INVALID_ARG_LIMIT"),
        (refused(400, b'{"message":"<b>"}'), 502, "UPSTREAM_ERROR: got response 400"),
        (refused(404, b"no page"), 502, "UPSTREAM_ERROR: got response 404 Not Found"),
        (refused(500, b'{"message":"INTERNAL_ERROR"}'), 502, "UPSTREAM_ERROR: got response 500"),
        (UpstreamError("EOF"), 502, "UPSTREAM_ERROR: EOF"),
    ],
)
def test_what_nodes_refuse(error: UpstreamError, status: int, code: str) -> None:
    found = refusal(error)
    assert (found.status, found.code[: len(code)]) == (status, code)


async def test_answered(http: HttpClient) -> None:
    with pytest.raises(ApiError, match="UPSTREAM_ERROR: Get "):
        await answered(http.get("127.0.0.1:9", "/", dict))


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


@pytest.mark.parametrize("answer", [Response(200, b"<html>"), {"messages": "none"}])
async def test_a_node_that_talks_nonsense(site: Site, answer: object) -> None:
    site.ours.answers["/topic/peek"] = answer
    status, found = await site.get(f"/api/messages?topic=t&node={site.node}")
    assert status == 502
    assert found["message"].startswith(f'UPSTREAM_ERROR: Get "http://{site.node}/topic/peek')


async def test_a_node_that_hangs(site: Site) -> None:
    site.ours.answers["/topic/peek"] = hang()
    nodes, site.lookupd.answers["/nodes"] = site.lookupd.answers["/nodes"], DeferredResponse()
    asked = asyncio.ensure_future(site.get(f"/api/messages?topic=t&node={site.node}"))
    await until(lambda: bool(site.lookupd.asked))
    site.running.admin.http._seconds = 0.2  # from the next request on, which is the node's
    site.lookupd.answers["/nodes"].complete(json_response(nodes))
    status, found = await asked
    assert status == 502
    assert found["message"].startswith(f'UPSTREAM_ERROR: Get "http://{site.node}/topic/peek')


async def test_nobody_tells_of_nodes(site: Site) -> None:
    site.lookupd.answers.clear()
    status, found = await site.get(f"/api/messages?topic=t&node={site.node}")
    assert status == 502
    assert found["message"].startswith("UPSTREAM_ERROR: failed to query any nsqlookupd")


ID = "4d20c5c1c8228885"


async def test_a_page_of_deferred_messages(site: Site) -> None:
    page = {"count": 7, "messages": [message(3, deadline=5, remaining_ms=4)], "next": "9.3"}
    site.ours.answers["/channel/deferred"] = page
    where = f"topic=t&channel=c&node={site.node}"
    status, found = await site.get(f"/api/deferred?{where}&from=8.1")
    assert (status, found) == (200, {"node": site.node, "topic": "t", "channel": "c", **page,
                                     "message": ""})  # fmt: skip
    assert site.asked() == ["GET /channel/deferred?topic=t&channel=c&from=8.1&limit=50"]


@pytest.mark.parametrize(("action", "done"), [("cancel", "cancelled"), ("release", "released")])
async def test_cancel_and_release(site: Site, action: str, done: str) -> None:
    site.ours.answers[f"/channel/deferred/{action}"] = {done: 2, "not_found": [ID]}
    wish = {"action": action, "topic": "t", "channel": "c", "node": site.node}
    for which in ({"ids": [ID]}, {"ids": [], "all": True}):
        assert await site.post("/api/deferred", wish | which) == (
            200, {done: 2, "not_found": [ID], "message": ""})  # fmt: skip
    target = f"POST /channel/deferred/{action}?topic=t&channel=c"
    assert site.asked() == [target, f"{target}&all=true"]
    assert site.ours.bodies[-2:] == [f'["{ID}"]'.encode(), b""]


def told(two: Two, *, ours: object) -> KnownNodes:
    """Both nodes have the topic `t`; the second one answers as Go's."""
    for each in two.nsqds:
        each.answers |= {"/info": each.told(), "/stats": {"topics": [topic("t")]}}
    two.nsqds[0].answers["/log/offsets"] = ours
    return KnownNodes(two.direct)


async def test_the_logs_of_those_that_keep_one(two: Two) -> None:
    nodes, warnings = told(two, ours={"queues": [{"start": 3, "end": 9}]}), Warnings()
    ours, go = (each.address for each in two.nsqds)
    assert await logs_of(nodes, "t", "", warnings) == Logs("t", {ours: Bounds(3, 9)})
    assert [each.partition(" ")[0] for each in warnings.errors] == [go]
    assert list((await logs_of(nodes, "t", ours, Warnings())).held) == [ours]
    with pytest.raises(ApiError, match="NOT_OFFERED"):
        await logs_of(nodes, "t", go, Warnings())
    with pytest.raises(NoAnswerError, match="500"):
        await logs_of(told(two, ours=Response(500, b"")), "t", "", Warnings())


async def test_where_to_begin(two: Two) -> None:
    http = two.direct.http
    one, other = (each.address for each in two.nsqds)
    logs = Logs("t", {one: Bounds(3, 9), other: Bounds(0, 0)})
    assert await begin(http, logs, "oldest", Warnings()) == {one: 3, other: 0}
    assert await begin(http, logs, "newest", Warnings()) == {one: 9, other: 0}
    two.nsqds[0].answers["/log/offset_at"] = {"offset": 5}
    warnings = Warnings()
    assert await begin(http, logs, "time:1700000000000", warnings) == {one: 5}
    assert len(warnings.errors) == 1
    assert f"GET /log/offset_at?topic=t&timestamp_ns={1700000000000 * 10**6}" in two.nsqds[0].asked
    for text in ("7", "", "before:x", "time:", "time:-1", "\N{ARABIC-INDIC DIGIT ONE}"):
        with pytest.raises(ApiError, match="INVALID_ARG_FROM"):
            await begin(http, logs, text, Warnings())
    alone = Logs("t", {one: Bounds(3, 9)})
    assert [(await begin(http, alone, text, Warnings()))[one] for text in ("0", "7", "99")] == [
        3, 7, 9]  # fmt: skip


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
    assert page["nodes"] == pair.names
    assert page["message"] == (
        f"WARNING: {pair.go.address} keeps no log to look into: it is a Go nsqd, or of an older "
        "version"
    )


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
    path = f"/api/messages?topic=t&node={pair.names[0]}&from=time:{ms}&limit=1000"
    _, of_one_node = await pair.get(path)
    for found in (page, of_one_node):
        assert all(each["timestamp"] >= ms * 1_000_000 for each in found["messages"])
        assert "m10" in bodies(found)
    assert page["earlier"] is not None
    assert bodies(await at(pair, "time:9999999999999")) == []
    assert bodies(await at(pair, "time:0", 200)) == ALL


async def test_a_place_on_a_stranger_is_not_asked(pair: Pair, site: Site) -> None:
    asked = list(site.ours.asked)
    page = await at(pair, f"after:{site.node}@0-0,{pair.names[1]}@3-3", 2)
    assert bodies(page) == ["m7", "m9"]
    assert site.ours.asked == asked


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
