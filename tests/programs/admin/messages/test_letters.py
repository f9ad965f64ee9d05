"""Dead letters: listed, exported and sent again, from scripted and from real nodes."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from penstock.admin.messages import dead_letters as module
from penstock.admin.messages import resend
from penstock.admin.messages.dead_letters import lines
from penstock.admin.messages.resend import Outcome, ResendRequest, Sending
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import UpstreamError
from penstock.net.http.server.service import DeferredResponse, Response
from penstock.net.http.server.v1_api import error_response, json_response
from penstock.nsq.dead_letters import listing
from penstock.nsq.dead_letters import resend as letter_channel
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.testing.daemons import Daemon
from tests.programs.admin.messages.conftest import (
    BODIES,
    LONG_S,
    Site,
    letters_in,
    message,
    producer_of,
)
from tests.unit.admin.conftest import TIMEOUT_S, StartFake, until
from tests.unit.cli.nodes_at_work import ask, consume, depths, kill_letters, make, publish

NO_CHANNEL = error_response(404, "CHANNEL_NOT_FOUND")


def row(topic: str, count: int, **more: object) -> dict[str, object]:
    return {"topic": topic, "letters": count, "is_rocketmq": False, "channel": None, **more}


async def test_topics_over_all_nodes_and_none_of_gos(site: Site) -> None:
    rocketmq = row("%DLQ%g", 1, is_rocketmq=True)
    site.ours.answers["/deadletters/topics"] = {"topics": [row("t.dead", 3), rocketmq]}
    found = await site.get("/api/deadletters")
    assert found[1]["message"] == ""
    assert [each["topic"] for each in found[1]["topics"]] == ["%DLQ%g", "t.dead"]
    site.theirs.answers["/deadletters/topics"] = {"topics": [row("t.dead", 4)]}
    assert (await site.get("/api/deadletters"))[1]["topics"][1] == {
        "topic": "t.dead", "letters": 7, "is_rocketmq": False,
        "nodes": [{"node": site.node, "letters": 3}, {"node": site.go, "letters": 4}],
    }  # fmt: skip


async def test_a_node_that_fails_is_a_warning_and_all_of_them_an_error(site: Site) -> None:
    site.ours.answers["/deadletters/topics"] = {"topics": [row("t.dead", 3)]}
    site.theirs.answers["/deadletters/topics"] = Response(500)
    status, found = await site.get("/api/deadletters")
    assert (status, len(found["topics"])) == (200, 1)
    assert found["message"].startswith("WARNING: got response 500")
    # Whoever could not be asked may have it.
    assert (await site.get("/api/deadletters/u.dead/export"))[0] == 502
    site.ours.answers["/deadletters/topics"] = Response(500)
    assert (await site.get("/api/deadletters"))[0] == 502


async def test_a_page_of_a_node(site: Site) -> None:
    site.ours.answers["/channel/peek"] = {"messages": [message(3)], "next": 4}
    path = f"/api/deadletters/t.dead?node={site.node}&limit=1"
    assert await site.get(path) == (200, {"node": site.node, "topic": "t.dead", "next": 4,
                                          "messages": [message(3)], "message": ""})  # fmt: skip


async def test_a_page_from_a_time_on(site: Site) -> None:
    site.ours.answers |= {"/log/offset_at": {"offset": 7},
                          "/channel/peek": {"messages": [message(8)], "next": None}}  # fmt: skip
    path = f"/api/deadletters/t.dead?node={site.node}&from=time:5"
    assert (await site.get(path))[0] == 200
    assert site.asked()[-2:] == [
        "GET /log/offset_at?topic=t.dead&timestamp_ns=5000000",
        "GET /channel/peek?topic=t.dead&channel=penstock-dlq&from=7&limit=50",
    ]


async def exported(http: HttpClient, nsqd: Daemon, form: str = "raw") -> list[bytes]:
    pieces = [piece async for piece in lines(http, nsqd.http, "orders.dead", form)]
    return b"".join(pieces).splitlines()


async def test_what_is_left_as_lines(dead: Daemon, http: HttpClient) -> None:
    assert await exported(http, dead) == BODIES
    found = [json.loads(line) for line in await exported(http, dead, "json")]
    assert [(each["node"], each["topic"], each["offset"]) for each in found] == [
        (dead.http, "orders.dead", offset) for offset in range(6)
    ]
    assert {each["origin"]["channel"] for each in found} == {"bill"}


async def test_without_what_was_dealt_with(
    dead: Daemon, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_PAGE", 2)
    ask(dead, "POST", f"/channel/create?topic=orders.dead&channel={CHANNEL}&from=oldest")
    assert await exported(http, dead) == BODIES
    consume(dead, "orders.dead", CHANNEL, 2)
    async with asyncio.timeout(TIMEOUT_S):
        while await exported(http, dead) != BODIES[2:]:
            pass


async def test_many_letters_in_small_pieces(dead: Daemon, http: HttpClient) -> None:
    many = [b"%d" % number * 100 for number in range(5000)]
    publish(dead, "orders.dead", many)
    pieces = [piece async for piece in lines(http, dead.http, "orders.dead", "raw")]
    assert b"".join(pieces).splitlines() == [*BODIES, *many]
    assert max(map(len, pieces)) < 70_000


async def test_names_of_files_are_safe(site: Site) -> None:
    name = 'a"b\r\nX: y'
    site.ours.answers["/deadletters/topics"] = {"topics": [row(name, 0)]}
    site.ours.answers["/log/offsets"] = {"queues": [{"start": 0, "end": 0}]}
    reader, writer = await asyncio.open_connection("127.0.0.1", site.running.admin.http_port)
    writer.write(b"GET /api/deadletters/a%22b%0D%0AX:%20y/export HTTP/1.1\r\nHost: h\r\n\r\n")
    head = (await reader.read()).partition(b"\r\n\r\n")[0]
    writer.close()
    assert b'filename="a_b__X__y.jsonl"' in head
    assert b"\r\nX:" not in head


async def test_no_more_than_so_many_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPORTS_AT_ONCE", 0)
    assert await site.get("/api/deadletters/t.dead/export") == (
        503, {"message": "TOO_MANY_EXPORTS"})  # fmt: skip


async def test_a_node_that_fails_midway_cuts_the_file_off(site: Site) -> None:
    site.ours.answers |= {
        "/deadletters/topics": {"topics": [row("t.dead", 2)]},
        "/log/offsets": {"queues": [{"start": 0, "end": 2}]},
        "/channel/peek": {"messages": [message(0), message(1)], "next": None},
        "/log/fetch": Response(500),
    }
    reader, writer = await asyncio.open_connection("127.0.0.1", site.running.admin.http_port)
    writer.write(b"GET /api/deadletters/t.dead/export HTTP/1.1\r\nHost: h\r\n\r\n")
    try:
        received = await reader.read()
    except ConnectionError:
        received = b""
    writer.close()
    assert not received.endswith(b"0\r\n\r\n")
    await until(lambda: "GET /log/fetch?topic=t.dead&offset=0&max_bytes=262144" in site.asked())


async def test_a_node_that_leads_in_circles(fake: StartFake, http: HttpClient) -> None:
    node = await fake()
    node.answers = {
        "/log/offsets": {"queues": [{"start": 0, "end": 9}]},
        "/channel/peek": {"messages": [], "next": 0},
    }
    with pytest.raises(UpstreamError, match="the page after 0 is that of 0"):
        async for _ in lines(http, node.address, "t.dead", "raw"):
            pass


DEAD = "orders.dead"


async def send(
    http: HttpClient, nsqd: Daemon, *ids: str, to: str = "", seconds: float = LONG_S, count: int = 6
) -> Outcome:
    outcome = Outcome()
    ends_at = asyncio.get_running_loop().time() + seconds
    wish = ResendRequest(DEAD, ids, to)
    await Sending(http, producer_of(nsqd), wish, outcome, ends_at).run(count)
    return outcome


def left(nsqd: Daemon) -> int:
    return depths(nsqd, DEAD)[CHANNEL]


async def test_all_of_them(dead: Daemon, http: HttpClient) -> None:
    assert await send(http, dead) == Outcome(sent=6)
    assert consume(dead, "orders", "bill", 6) == BODIES
    assert left(dead) == 0
    assert await send(http, dead, count=0) == Outcome()


async def test_some_of_them_and_the_others_stay_at_hand(dead: Daemon, http: HttpClient) -> None:
    make(dead, "elsewhere", "c")
    ids = [each["id"] for each in letters_in(dead, DEAD)]
    outcome = await send(http, dead, ids[4], "0" * 16, ids[1], "f" * 16, to="elsewhere")
    assert outcome == Outcome(sent=2, not_found=["0" * 16, "f" * 16])
    assert sorted(consume(dead, "elsewhere", "c", 2)) == [BODIES[1], BODIES[4]]
    # None of the others is put off any longer, and those that were sent are not found again.
    assert (await send(http, dead, ids[4])).not_found == [ids[4]]
    assert len(consume(dead, DEAD, CHANNEL, 4)) == 4


async def test_letters_that_do_not_say_where_they_came_from(dead: Daemon, http: HttpClient) -> None:
    publish(dead, DEAD, [b"without origin"])
    outcome = await send(http, dead, count=7)
    assert (outcome.sent, outcome.left) == (6, 0)
    assert outcome.remarks == [f'{dead.http}: 1 letter without an origin; give "to"']
    assert (await send(http, dead, to="orders", count=1)).sent == 1


async def test_a_topic_that_takes_no_more_midway(
    dead: Daemon, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resend, "IN_FLIGHT", 2)
    ask(dead, "POST", "/topic/config?topic=orders", b'{"max_depth":3,"overflow":"refuse"}')
    outcome = await send(http, dead)
    assert 2 <= outcome.sent <= 3
    assert outcome.left == 6 - outcome.sent
    (remark,) = outcome.remarks
    assert "topic orders did not take the letters: E_MPUB_FAILED" in remark
    assert depths(dead, "orders")["bill"] == outcome.sent
    ask(dead, "POST", "/topic/config?topic=orders", b"{}")
    again = await send(http, dead, count=outcome.left)
    assert (again.sent, again.left) == (6 - outcome.sent, 0)


async def test_letters_that_somebody_else_holds(
    dead: Daemon, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_channel, "WAIT_S", 0.1)
    make(dead, DEAD, CHANNEL)
    ask(dead, "POST", f"/channel/pause?topic={DEAD}&channel={CHANNEL}")
    outcome = await send(http, dead)
    assert (outcome.sent, outcome.left) == (0, 6)
    assert "6 letters did not come: another consumer of the channel" in outcome.remarks[0]


async def test_when_time_is_up(dead: Daemon, http: HttpClient) -> None:
    outcome = await send(http, dead, seconds=0)
    assert (outcome.sent, outcome.left) == (0, 6)
    assert outcome.remarks == [f"{dead.http}: 6 letters left, as time was up: ask again"]
    assert left(dead) == 6


async def test_a_node_that_is_gone(dead: Daemon, http: HttpClient) -> None:
    node = producer_of(dead)
    node.tcp_port = 1
    outcome = Outcome()
    await Sending(http, node, ResendRequest(DEAD, (), ""), outcome, 1e12).run(6)
    assert (outcome.sent, outcome.left) == (0, 6)
    assert "127.0.0.1:1" in outcome.remarks[0]
    dead.kill()
    outcome = await send(http, dead)
    assert (outcome.sent, outcome.left) == (0, 6)
    # The end of the kept connection may not have been noticed yet.
    assert re.search("connection refused|EOF$", outcome.remarks[0])


async def test_many_in_more_than_one_batch(dead: Daemon, http: HttpClient) -> None:
    kill_letters(dead, "other", "c", [b"%d" % number for number in range(700)])
    outcome = Outcome()
    wish = ResendRequest("other.dead", (), "")
    await Sending(http, producer_of(dead), wish, outcome, 1e12).run(700)
    assert outcome == Outcome(sent=700)
    assert depths(dead, "other")["c"] == 700


PATH = "/api/deadletters/t.dead"
ALL = {"action": "resend", "all": True}


async def test_one_request_for_a_topic_at_a_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = DeferredResponse()
    site.ours.answers["/deadletters/topics"] = late
    first = asyncio.ensure_future(site.post(PATH, ALL))
    await until(lambda: "GET /deadletters/topics" in site.asked())
    assert await site.post(PATH, ALL) == (503, {"message": "RESEND_UNDER_WAY"})
    monkeypatch.setattr(resend, "AT_ONCE", 1)
    assert (await site.post("/api/deadletters/u.dead", ALL))[0] == 503
    late.complete(json_response({"topics": []}))
    assert (await first)[0] == 404
    site.ours.answers["/deadletters/topics"] = {"topics": []}
    assert (await site.post(PATH, ALL))[0] == 404
