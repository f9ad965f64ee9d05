"""Nodes on their pages: the machines under them, topics, and second copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import __version__
from penstock.admin.nodes import node_topics as node_topics_module
from penstock.admin.nodes.node_topics import node_topics
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from tests import nsqds
from tests.unit.admin.conftest import Running, StartAdmin, StartFake, Two, channel, topic
from tests.unit.admin.test_history import sample


async def test_a_real_node(tmp_path: Path, admin: StartAdmin) -> None:
    options = NsqdOptions(data_path=str(tmp_path), tcp_address="127.0.0.1:0",
                          http_address="127.0.0.1:0", broadcast_address="127.0.0.1")  # fmt: skip
    nsqd = await nsqds.start(options)
    try:
        running = await admin(nsqd_http_addresses=(f"127.0.0.1:{nsqd.ports.http}",))
        found = await running.get("/api/machines")
    finally:
        await nsqds.stop(nsqd)
    (machine,) = found["machines"]
    assert found["message"] == ""
    assert (machine["penstock_version"], machine["health"]) == (__version__, "OK")
    assert machine["ports"] == {"tcp": nsqd.ports.tcp, "http": nsqd.ports.http}
    assert machine["connections"] == {"nsq": 0}
    assert machine["heap"] is None
    assert min(machine["resident"], machine["cpu_seconds"], machine["cpus"]) > 0
    assert machine["disk"]["total"] >= machine["disk"]["free"] > 0
    assert machine["start_time"] > 0


async def test_of_gos_there_is_what_it_tells(two: Two, running: Running) -> None:
    go, _ = two.nsqds
    go.answers["/info"] = {"version": "1.3.0", "start_time": 7, "tcp_port": 1, "http_port": 2}
    go.answers["/stats"] = {"health": "OK", "memory": {"heap_in_use_bytes": 9}, "topics": None}
    (machine,) = (await running.get(f"/api/machines?node={go.address}"))["machines"]
    told = {"node": go.address, "health": "OK", "start_time": 7, "heap": 9,
            "ports": {"tcp": 1, "http": 2}}  # fmt: skip
    assert {name: value for name, value in machine.items() if value is not None} == told
    assert go.asked == ["GET /node", "GET /info",
                        "GET /stats?format=json&include_clients=false&topic=-"]  # fmt: skip


async def test_a_node_that_does_not_answer_is_a_warning(two: Two, running: Running) -> None:
    ours, other = two.nsqds
    ours.answers["/node"] = {"penstock_version": "9", "health": "NOK - full"}
    other.answers.clear()
    found = await running.get("/api/machines")
    assert [each["node"] for each in found["machines"]] == [ours.address]
    assert found["message"].startswith("WARNING: ")
    assert (await running.get("/api/machines?node=none:1"))["machines"] == []
    ours.answers.clear()
    assert (await running.ask("GET", "/api/machines"))[0] == 502


LATENCY = {"count": 3, "percentiles": [{"quantile": 0.99, "value": 7}]}


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


async def test_the_channels_of_what_is_open_and_not_everything_can_be(
    running: Running, two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, stats = two.nsqds[0], "/stats?format=json&topic=t"
    own = channel("c", clients=[{"client_id": "x"}])
    node.answers[stats] = {"topics": [topic("t", own)]}
    node.answers["/stats?format=json&topic=none"] = {"topics": []}
    asked = f"/api/nodes/{node.address}?level=topics&open="
    (row,) = (await running.get(asked + "t,none,,t"))["topics"]
    (shown,) = row["channels"]
    assert (shown["channel_name"], shown["clients"][0]["client_id"]) == ("c", "x")
    topics = [f"GET {stats}", "GET /stats?format=json&topic=none"]
    assert [each for each in node.asked if "topic=" in each] == topics
    monkeypatch.setattr(node_topics_module, "OPEN_MAX", 2)
    await running.get(asked + "a,b,c,d")
    assert len([each for each in node.asked if "topic=" in each]) == 4


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


def by_node(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["node"]: each for each in found["copies"]}


async def test_a_copy_that_is_gone_is_missed(two: Two, fake: StartFake, running: Running) -> None:
    primary, standby = two.nsqds[0], await fake()
    told: dict[str, Any] = {"role": "primary", "epoch": 0, "followers": []}
    primary.answers["/replication"] = told  # without copies it is not there
    assert await running.get("/api/copies") == {"copies": [], "message": ""}
    follower = {"address": standby.address, "lag_messages": 0, "lag_bytes": 0,
                "asked_seconds_ago": 30}  # fmt: skip
    primary.answers["/replication"] = told | {"epoch": 1, "followers": [follower]}
    row = by_node(await running.get("/api/copies"))[standby.address]
    assert (row["answers"], row["primary"]) == (False, primary.address)
    assert row["verdicts"] == [{"kind": "copy_gone", "level": "bad"}]
    primary.answers["/replication"] = told | {"epoch": 1}
    row = by_node(await running.get("/api/copies"))[standby.address]
    assert (row["role"], row["verdicts"]) == ("", [{"kind": "copy_gone", "level": "bad"}])


async def test_a_primary_names_its_standbys(two: Two, fake: StartFake, running: Running) -> None:
    primary = two.nsqds[0]
    standby, fenced = await fake(), await fake()
    follower = {"address": standby.address, "lag_messages": 4, "lag_bytes": 90,
                "asked_seconds_ago": 0.5}  # fmt: skip
    primary.answers["/replication"] = {
        "role": "primary", "epoch": 2, "followers": [follower], "before": fenced.address,
        "replicas_acked": 1, "replicas_in_force": 0, "replicas_missing": "go-on",
    }  # fmt: skip
    standby.answers["/replication"] = {
        "role": "follower", "epoch": 2, "primary": primary.address, "error": None,
        "lag_messages": 5, "lag_bytes": 100, "lag_seconds": 45.0,
    }  # fmt: skip
    fenced.answers["/replication"] = {
        "role": "fenced", "epoch": 1, "primary": primary.address, "only_here": {"orders": 3},
    }  # fmt: skip
    found = by_node(await running.get("/api/copies"))
    assert next(iter(found)) == primary.address
    assert {name: [each["kind"] for each in row["verdicts"]] for name, row in found.items()} == {
        primary.address: ["without_copies"],
        standby.address: ["copy_behind"],
        fenced.address: ["fenced"],
    }
    assert found[primary.address]["followers"] == [standby.address]
    assert found[standby.address]["primary"] == primary.address
    assert found[standby.address]["lag_bytes"] == 100
    assert found[fenced.address]["only_here"] == {"orders": 3}
    named = await running.get(f"/api/copies?node={standby.address}")
    assert set(by_node(named)) == {primary.address, standby.address}
