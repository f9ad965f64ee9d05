from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.admin.messages import resend
from penstock.net.http.server.api import json_response
from penstock.net.http.server.service import Later
from penstock.testing.daemons import Daemon
from tests.unit.admin.conftest import StartAdmin, until
from tests.unit.cli.nodes_at_work import depths

from .conftest import Site, letters_in

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
