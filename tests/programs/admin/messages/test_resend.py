from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from penstock.admin.messages import resend
from penstock.admin.messages.resend import Outcome, Sending, Wish
from penstock.cluster.asker import Asker
from penstock.net.http.server.api import json_response
from penstock.net.http.server.service import Later
from penstock.nsq.dead_letters import resend as letter_channel
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.testing.daemons import Daemon
from tests.unit.admin.conftest import StartAdmin, until
from tests.unit.cli.nodes_at_work import ask, consume, depths, kill_letters, make, publish

from .conftest import BODIES, LONG_S, Site, letters_in, producer_of

DEAD = "orders.dead"


async def send(
    asker: Asker, nsqd: Daemon, *ids: str, to: str = "", seconds: float = LONG_S, count: int = 6
) -> Outcome:
    outcome = Outcome()
    ends_at = asyncio.get_running_loop().time() + seconds
    wish = Wish(DEAD, ids, to)
    await Sending(asker, producer_of(nsqd), wish, outcome, ends_at).run(count)
    return outcome


def left(nsqd: Daemon) -> int:
    return depths(nsqd, DEAD)[CHANNEL]


async def test_all_of_them(dead: Daemon, asker: Asker) -> None:
    assert await send(asker, dead) == Outcome(sent=6)
    assert consume(dead, "orders", "bill", 6) == BODIES
    assert left(dead) == 0
    assert await send(asker, dead, count=0) == Outcome()


async def test_some_of_them_and_the_others_stay_at_hand(dead: Daemon, asker: Asker) -> None:
    make(dead, "elsewhere", "c")
    ids = [each["id"] for each in letters_in(dead, DEAD)]
    outcome = await send(asker, dead, ids[4], "0" * 16, ids[1], "f" * 16, to="elsewhere")
    assert outcome == Outcome(sent=2, not_found=["0" * 16, "f" * 16])
    assert sorted(consume(dead, "elsewhere", "c", 2)) == [BODIES[1], BODIES[4]]
    # None of the others is put off any longer, and those that were sent are not found again.
    assert (await send(asker, dead, ids[4])).not_found == [ids[4]]
    assert len(consume(dead, DEAD, CHANNEL, 4)) == 4


async def test_letters_that_do_not_say_where_they_came_from(dead: Daemon, asker: Asker) -> None:
    publish(dead, DEAD, [b"without origin"])
    outcome = await send(asker, dead, count=7)
    assert (outcome.sent, outcome.left) == (6, 0)
    assert outcome.remarks == [f'{dead.http}: 1 letter without an origin; give "to"']
    assert (await send(asker, dead, to="orders", count=1)).sent == 1


async def test_a_topic_that_takes_no_more_midway(
    dead: Daemon, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resend, "IN_FLIGHT", 2)
    ask(dead, "POST", "/topic/config?topic=orders", b'{"max_depth":3,"overflow":"refuse"}')
    outcome = await send(asker, dead)
    assert 2 <= outcome.sent <= 3
    assert outcome.left == 6 - outcome.sent
    (remark,) = outcome.remarks
    assert "topic orders did not take the letters: E_MPUB_FAILED" in remark
    assert depths(dead, "orders")["bill"] == outcome.sent
    ask(dead, "POST", "/topic/config?topic=orders", b"{}")
    again = await send(asker, dead, count=outcome.left)
    assert (again.sent, again.left) == (6 - outcome.sent, 0)


async def test_letters_that_somebody_else_holds(
    dead: Daemon, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_channel, "WAIT_S", 0.1)
    make(dead, DEAD, CHANNEL)
    ask(dead, "POST", f"/channel/pause?topic={DEAD}&channel={CHANNEL}")
    outcome = await send(asker, dead)
    assert (outcome.sent, outcome.left) == (0, 6)
    assert "6 letters did not come: another consumer of the channel" in outcome.remarks[0]


async def test_when_time_is_up(dead: Daemon, asker: Asker) -> None:
    outcome = await send(asker, dead, seconds=0)
    assert (outcome.sent, outcome.left) == (0, 6)
    assert outcome.remarks == [f"{dead.http}: 6 letters left, as time was up: ask again"]
    assert left(dead) == 6


async def test_a_node_that_is_gone(dead: Daemon, asker: Asker) -> None:
    node = producer_of(dead)
    node.tcp_port = 1
    outcome = Outcome()
    await Sending(asker, node, Wish(DEAD, (), ""), outcome, 1e12).run(6)
    assert (outcome.sent, outcome.left) == (0, 6)
    assert "127.0.0.1:1" in outcome.remarks[0]
    dead.kill()
    outcome = await send(asker, dead)
    assert (outcome.sent, outcome.left) == (0, 6)
    # The end of the kept connection may not have been noticed yet.
    assert re.search("connection refused|EOF$", outcome.remarks[0])


async def test_many_in_more_than_one_batch(dead: Daemon, asker: Asker) -> None:
    kill_letters(dead, "other", "c", [b"%d" % number for number in range(700)])
    outcome = Outcome()
    wish = Wish("other.dead", (), "")
    await Sending(asker, producer_of(dead), wish, outcome, 1e12).run(700)
    assert outcome == Outcome(sent=700)
    assert depths(dead, "other")["c"] == 700


PATH = "/api/deadletters/t.dead"
ALL = {"action": "resend", "all": True}
ID = "4d20c5c1c8228885"


async def test_only_administrators(site: Site) -> None:
    for user in ("", "eve"):
        assert await site.post(PATH, ALL, user) == (403, {"message": "FORBIDDEN"})
    assert site.asked() == []


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (PATH, {"all": True}, 400, "INVALID_ACTION"),
        (PATH, {"action": "resend"}, 400, "MISSING_IDS"),
        (PATH, {"action": "resend", "ids": [ID]}, 400, "MISSING_NODE"),
        (PATH, {**ALL, "to": "no name"}, 400, "INVALID_TO"),
        (PATH, {**ALL, "to": "t.dead"}, 400, "INVALID_TO"),
        (PATH, {**ALL, "node": "127.0.0.1:1"}, 404, "NODE_NOT_FOUND"),
        (PATH, ALL, 404, "TOPIC_NOT_FOUND"),
        ("/api/deadletters/%25DLQ%25g", ALL, 400, "ROCKETMQ_NOT_RESENDABLE"),
    ],
)
async def test_refusals(
    site: Site, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    assert await site.post(path, body) == (status, {"message": code})


async def test_gos_node_has_none(site: Site) -> None:
    assert await site.post(PATH, {**ALL, "node": site.go}) == (501, {"message": "NOT_OFFERED"})


async def test_one_request_for_a_topic_at_a_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Later()
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


async def test_through_nsqadmin(dead: Daemon, admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=(dead.http,))
    ids = [each["id"] for each in letters_in(dead, "orders.dead")]
    path = "/api/deadletters/orders.dead"
    body = {"action": "resend", "ids": [ids[2], ID], "node": dead.http}
    status, text = await running.ask("POST", path, body)
    assert (status, json.loads(text)) == (
        200, {"sent": 1, "left": 0, "not_found": [ID], "message": ""})  # fmt: skip
    page = await running.get(f"{path}?node={dead.http}")
    assert [each["id"] for each in page["messages"]] == [*ids[:2], *ids[3:]]
    status, text = await running.ask("POST", path, ALL)
    assert (status, json.loads(text)["sent"]) == (200, 5)
    assert depths(dead, "orders")["bill"] == 6
    topics = (await running.get("/api/deadletters"))["topics"]
    assert [(each["topic"], each["letters"]) for each in topics] == [("orders.dead", 0)]
