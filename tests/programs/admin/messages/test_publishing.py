"""What is published by hand, and channels that are wound back."""

from __future__ import annotations

from typing import Any

from penstock.net.http.server.v1_api import error_response
from tests.programs.admin.messages.conftest import Pair, Site
from tests.unit.cli.nodes_at_work import depths

PATH = "/api/messages/publish"


async def test_a_message_on_the_node_that_is_named(pair: Pair) -> None:
    for node in (0, 1):
        pair.make("tried", node)
    body = {"topic": "tried", "text": "Grüße", "node": pair.names[1]}
    assert await pair.post(PATH, body) == (
        200, {"topic": "tried", "node": pair.names[1], "message": ""})  # fmt: skip
    assert (pair.bodies("tried", 0), pair.bodies("tried", 1)) == ([], ["Grüße"])


async def test_on_any_node_that_has_the_topic(pair: Pair) -> None:
    pair.make("there", 1)
    status, answer = await pair.post(PATH, {"topic": "there", "text": "x"})
    assert (status, answer["node"]) == (200, pair.names[1])


async def preview(pair: Pair, start: str, channel: str) -> dict[str, Any]:
    status, plan = await pair.get(f"/api/rewind?topic=t&channel={channel}&from={start}")
    assert status == 200, plan
    return dict(plan)


async def test_a_time_is_shown_and_then_gone_to(pair: Pair) -> None:
    for node in (0, 1):
        pair.channel("t", "first", node)  # which gets what was there
        pair.channel("t", "bill", node)
    _, page = await pair.get("/api/messages?topic=t&from=oldest&limit=31")
    ms = page["messages"][30]["timestamp"] // 1_000_000
    plan = await preview(pair, f"time:{ms}", "bill")
    assert [each["node"] for each in plan["nodes"]] == pair.names
    delivered = sum(each["delivered"] for each in plan["nodes"])
    assert 10 <= delivered <= 40
    assert sum(each["again"] for each in plan["nodes"]) == delivered, (
        "a new channel has none of them"
    )
    assert "keeps no log to look into: it is a Go nsqd" in plan["message"]
    assert [depths(each, "t")["bill"] for each in pair.nodes] == [0, 0]
    offsets = {each["node"]: each["offset"] for each in plan["nodes"]}
    status, answer = await pair.post(
        "/api/rewind", {"topic": "t", "channel": "bill", "offsets": offsets}
    )
    assert (status, sorted(answer["moved"]), answer["message"]) == (200, sorted(pair.names), "")
    assert sum(depths(each, "t")["bill"] for each in pair.nodes) == delivered


async def test_ahead_it_tells_what_is_skipped(pair: Pair) -> None:
    pair.channel("t", "late", 0, "&from=oldest")
    (there,) = (await preview(pair, "newest", "late"))["nodes"]
    assert (there["delivered"], there["again"], there["skipped"]) == (0, 0, 20)
    (there,) = (await preview(pair, "oldest", "late"))["nodes"]
    assert (there["delivered"], there["again"], there["skipped"]) == (20, 0, 0)


async def test_an_offset_that_is_gone_meanwhile_changes_nothing(pair: Pair) -> None:
    pair.channel("t", "slow", 0)
    body = {"topic": "t", "channel": "slow", "offsets": {pair.names[0]: 10**6}}
    status, answer = await pair.post("/api/rewind", body)
    assert (status, answer["moved"]) == (200, [])
    assert f"{pair.names[0]} does not hold the offset 1000000 any more" in answer["message"]


async def test_a_node_of_an_older_version(site: Site) -> None:
    site.ours.answers["/channel/seek"] = error_response(405, "METHOD_NOT_ALLOWED")
    status, plan = await site.get("/api/rewind?topic=t&channel=c&from=oldest")
    assert (status, plan["nodes"]) == (200, [])
    assert f"{site.node} cannot preview a rewind" in plan["message"]
    assert f"{site.go} keeps no log to look into" in plan["message"]
