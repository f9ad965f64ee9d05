"""/api/limits: limits of a topic and attempts of a channel, on every node."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.limits_api import NOT_OFFERED
from penstock.net.http.server.v1_api import error_response
from tests.unit.cli.nodes_at_work import ask

from .conftest import Pair, Site

UNKNOWN = error_response(404, "NOT_FOUND")


async def test_limits_of_a_topic_are_shown_and_changed_on_every_node(pair: Pair) -> None:
    def of(node: int) -> dict[str, Any]:
        return dict(ask(pair.nodes[node], "GET", "/topic/config?topic=bounded"))

    for node in (0, 1):
        pair.make("bounded", node)
    status, shown = await pair.get("/api/limits?topic=bounded")
    assert (status, shown["message"]) == (200, "")
    assert [(each["node"], each["max_depth"]) for each in shown["nodes"]] == [
        (name, 0) for name in pair.names
    ]
    pair.configure("bounded", {"max_bytes": 10**6}, 0)
    change = {"topic": "bounded", "change": {"max_depth": 5, "retention_time": "24h"}}
    assert await pair.post("/api/limits", change) == (200, {"changed": pair.names, "message": ""})
    assert [of(node)["max_depth"] for node in (0, 1)] == [5, 5]
    assert [of(node)["max_bytes"] for node in (0, 1)] == [10**6, 0], "what is not named stays"
    await pair.post("/api/limits", {"topic": "bounded", "change": {"max_depth": None}})
    assert of(0)["set"] == {
        "max_depth": None, "max_bytes": 10**6, "overflow": None,
        "retention_time": "24h0m0s", "retention_bytes": None,
    }  # fmt: skip


async def test_attempts_of_a_channel(pair: Pair) -> None:
    for node in (0, 1):
        pair.make("tried", node)
        pair.channel("tried", "c", node)
    change = {"topic": "tried", "channel": "c", "change": {"max_attempts": 3}}
    assert (await pair.post("/api/limits", change))[0] == 200
    _, shown = await pair.get("/api/limits?topic=tried&channel=c")
    assert [each["max_attempts"] for each in shown["nodes"]] == [3, 3]


async def test_a_node_of_go_is_left_out_and_named(pair: Pair) -> None:
    _, shown = await pair.get("/api/limits?topic=t")
    assert [each["node"] for each in shown["nodes"]] == pair.names
    assert shown["message"] == f"WARNING: {pair.go.address} {NOT_OFFERED}"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"topic": "t"}, 400, "INVALID_BODY"),
        ({"topic": "t", "change": {"max_attempts": 1}}, 400, "INVALID_BODY"),
        ({"topic": "t", "change": {"max_depth": -1}}, 400, "INVALID_ARG_MAX_DEPTH"),
        ({"topic": "t", "change": {"retention_time": "a day"}}, 400, "INVALID_ARG_RETENTION_TIME"),
        ({"topic": "none", "change": {"max_depth": 1}}, 404, "TOPIC_NOT_FOUND"),
        ({"topic": "t", "channel": "no", "change": {"max_attempts": 1}}, 404, "CHANNEL_NOT_FOUND"),
    ],
)
async def test_refusals(pair: Pair, body: dict[str, Any], status: int, code: str) -> None:
    assert await pair.post("/api/limits", body) == (status, {"message": code})


async def test_gos_nodes_have_none_and_only_administrators_change_them(site: Site) -> None:
    for daemon in (site.ours, site.theirs):
        daemon.answers["/topic/config"] = UNKNOWN
    assert await site.get("/api/limits?topic=t") == (501, {"message": "NOT_OFFERED"})
    answer = await site.post("/api/limits", {"topic": "t", "change": {"max_depth": 1}}, user="eve")
    assert answer == (403, {"message": "FORBIDDEN"})
