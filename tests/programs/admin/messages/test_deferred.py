from __future__ import annotations

from typing import Any

import pytest

from .conftest import Site, message

ID = "4d20c5c1c8228885"


def body(site: Site, **more: Any) -> dict[str, Any]:
    return {"action": "cancel", "topic": "t", "channel": "c", "node": site.node, "ids": [ID],
            **more}  # fmt: skip


async def test_a_page(site: Site) -> None:
    page = {"count": 7, "messages": [message(3, deadline=5, remaining_ms=4)], "next": "9.3"}
    site.ours.answers["/channel/deferred"] = page
    where = f"topic=t&channel=c&node={site.node}"
    status, found = await site.get(f"/api/deferred?{where}&from=8.1")
    assert (status, found) == (200, {"node": site.node, "topic": "t", "channel": "c", **page,
                                     "message": ""})  # fmt: skip
    assert site.asked() == ["GET /channel/deferred?topic=t&channel=c&from=8.1&limit=50"]
    assert (await site.get(f"/api/deferred?topic=t&node={site.node}"))[0] == 400


@pytest.mark.parametrize(("action", "done"), [("cancel", "cancelled"), ("release", "released")])
async def test_cancel_and_release(site: Site, action: str, done: str) -> None:
    site.ours.answers[f"/channel/deferred/{action}"] = {done: 2, "not_found": [ID]}
    expected = (200, {done: 2, "not_found": [ID], "message": ""})
    assert await site.post("/api/deferred", body(site, action=action)) == expected
    wish = body(site, action=action, ids=[], all=True)
    assert await site.post("/api/deferred", wish) == expected
    target = f"POST /channel/deferred/{action}?topic=t&channel=c"
    assert site.asked() == [target, f"{target}&all=true"]
    assert site.ours.bodies[-2:] == [f'["{ID}"]'.encode(), b""]


async def test_only_administrators(site: Site) -> None:
    for user in ("", "eve"):
        assert await site.post("/api/deferred", body(site), user) == (
            403, {"message": "FORBIDDEN"})  # fmt: skip
    assert site.asked() == []


@pytest.mark.parametrize(
    ("wrong", "status", "code"),
    [
        ({"action": "drop"}, 400, "INVALID_ACTION"),
        ({"ids": []}, 400, "MISSING_IDS"),
        ({"ids": "all"}, 400, "INVALID_BODY"),
        ({"node": "127.0.0.1:1"}, 404, "NODE_NOT_FOUND"),
        ({}, 501, "NOT_OFFERED"),
    ],
)
async def test_refusals(site: Site, wrong: dict[str, Any], status: int, code: str) -> None:
    found = await site.post("/api/deferred", body(site, **wrong))
    assert found == (status, {"message": code})
