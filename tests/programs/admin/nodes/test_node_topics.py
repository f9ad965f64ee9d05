from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.nodes import node_topics as node_topics_module
from penstock.admin.nodes.node_topics import node_topics
from tests.unit.admin.conftest import Running, StartAdmin, Two, channel, topic
from tests.unit.admin.test_history import sample

LATENCY = {"count": 3, "percentiles": [{"quantile": 0.99, "value": 7}]}


@pytest.fixture
async def running(two: Two, admin: StartAdmin) -> Running:
    started: Running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    return started


def test_topics_with_the_sums_of_their_channels() -> None:
    look = sample(
        topic("empty", depth=5, backend_depth=2, paused=True),
        topic("t", channel("b", depth=1, in_flight_count=2, client_count=3),
              channel("c", depth=10, deferred_count=4, e2e_processing_latency=LATENCY),
              message_count=9, e2e_processing_latency=LATENCY),
    )  # fmt: skip
    empty, full = node_topics(look, {})
    assert (empty.topic_name, empty.depth, empty.memory_depth, empty.backend_depth) == (
        "empty", 5, 3, 2)  # fmt: skip
    assert (empty.paused, empty.channel_names, empty.in_channels.depth) == (True, [], 0)
    assert empty.e2e_processing_latency is None
    assert (full.message_count, full.paused, full.channel_names) == (9, False, ["b", "c"])
    within = full.in_channels
    assert (within.depth, within.in_flight_count, within.deferred_count) == (11, 2, 4)
    assert within.client_count == 3
    latency = full.e2e_processing_latency
    assert latency is not None
    assert latency.percentiles is not None
    (p99,) = latency.percentiles
    assert (p99.quantile, p99.average, p99.count) == (0.99, 7, 1)
    assert full.channels is None


def test_nothing_and_nonsense() -> None:
    assert node_topics(sample(), {}) == []
    (odd,) = node_topics(sample(topic("t", depth=1 << 70)), {})
    assert odd.depth == 1 << 62


async def test_a_node_in_brief(running: Running, two: Two) -> None:
    node = two.nsqds[0].address
    found = await running.get(f"/api/nodes/{node}?level=topics")
    assert list(found) == ["node", "about", "topics", "total_messages", "total_clients", "message"]
    assert (found["node"], found["total_messages"], found["total_clients"]) == (node, 5, 0)
    assert (found["about"]["hostname"], found["about"]["version"]) == ("a", "1.3.0")
    assert found["about"]["topics"] == [{"topic": "t", "tombstoned": False}]
    (row,) = found["topics"]
    assert (row["channel_names"], row["channels"], row["in_channels"]["depth"]) == (["c"], None, 5)
    path = "/api/nodes/x:1?level=topics"
    assert await running.ask("GET", path) == (404, '{"message":"NODE_NOT_FOUND"}')


async def test_the_channels_of_what_is_open(running: Running, two: Two) -> None:
    node, stats = two.nsqds[0], "/stats?format=json&topic=t"
    own = channel("c", clients=[{"client_id": "x"}])
    node.answers[stats] = {"topics": [topic("t", own)]}
    node.answers["/stats?format=json&topic=none"] = {"topics": []}
    asked = f"/api/nodes/{node.address}?level=topics&open=t,none,,t"
    (row,) = (await running.get(asked))["topics"]
    (shown,) = row["channels"]
    assert (shown["channel_name"], shown["clients"][0]["client_id"]) == ("c", "x")
    assert [each for each in node.asked if "topic=" in each] == [
        f"GET {stats}", "GET /stats?format=json&topic=none",
    ]  # fmt: skip


async def test_not_everything_can_be_open(
    running: Running, two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_topics_module, "OPEN_MAX", 2)
    await running.get(f"/api/nodes/{two.nsqds[0].address}?level=topics&open=a,b,c,d")
    assert len([each for each in two.nsqds[0].asked if "topic=" in each]) == 2


async def test_a_node_that_does_not_answer(running: Running, two: Two) -> None:
    del two.nsqds[0].answers["/stats"]
    status, body = await running.ask("GET", f"/api/nodes/{two.nsqds[0].address}?level=topics")
    assert status == 502
    assert body.startswith('{"message":"UPSTREAM_ERROR: failed to query any nsqd: got response 404')


async def test_without_nsqlookupds(two: Two, admin: StartAdmin) -> None:
    node = two.nsqds[0]
    running = await admin(nsqd_http_addresses=(node.address,))
    found: dict[str, Any] = await running.get(f"/api/nodes/{node.address}?level=topics")
    assert [each["topic_name"] for each in found["topics"]] == ["t"]
    assert found["about"]["topics"] is None
    assert (await running.get("/api/nodes?topics=false"))["nodes"] == [found["about"]]
    assert node.asked == ["GET /info", "GET /stats?format=json&include_clients=false"
                          "&include_mem=false&packed=true", "GET /info"]  # fmt: skip
