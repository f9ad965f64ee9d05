from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from penstock.admin.history.server_sent import Events
from penstock.admin.rocketmq.beside import Beside
from penstock.admin.verdicts.rule import verdict
from penstock.cluster.fanout import Warnings
from penstock.cluster.groups import NodeGroups, ToldGroup, ToldTopic
from penstock.net.http.client.once import post
from penstock.nsq.nsqd.options import NsqdOptions
from tests import nsqds
from tests.unit.admin.conftest import TIMEOUT_S, StartAdmin, Two, topic

GROUP = {"group_name": "g", "committed": {"0": 2}, "lag": 3, "rate": 1.0}


async def test_groups_over_the_nodes(two: Two, admin: StartAdmin) -> None:
    for node in two.nsqds:
        node.answers["/stats"] = {"topics": [topic("t", log_groups=[GROUP])]}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    nodes = [
        {
            "node": node.address,
            "lag": 3,
            "rate": 1,
            "committed": {"0": 2},
            "end": 5,
            "clients": 0,
            "age": None,
        }
        for node in two.nsqds
    ]
    whole = {"topic": "t", "group": "g", "kind": "log", "lag": 6, "rate": 2, "clients": 0,
             "nodes": nodes, "owner": None, "age": None, "expires_in": None, "stale": False,
             "pipeline": None, "verdict": verdict(6, None, 2)}  # fmt: skip
    found = await running.get("/api/groups")
    found["groups"][0]["nodes"].sort(key=lambda each: nodes.index(each))
    assert found == {"groups": [whole], "message": ""}
    asked = "GET /stats?format=json&include_clients=false&include_mem=false&packed=true"
    assert two.nsqds[0].asked == [asked, "GET /pipelines"]
    assert len((await running.get("/api/groups?topic=t"))["groups"]) == 1
    assert two.nsqds[0].asked[2] == f"{asked}&topic=t"


async def test_the_verdict_looks_at_how_the_lag_grew(
    two: Two, admin: StartAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Events, "growth", lambda self, *names: {("t", "g"): 100.0}[names])
    group = GROUP | {"lag": 5600, "rate": 100.0}
    for node in two.nsqds:
        node.answers["/stats"] = {"topics": [topic("t", log_groups=[group])]}
    running = await admin(
        lookupd_http_addresses=(two.lookupd.address,), history_interval=1000 * 10**9
    )
    (found,) = (await running.get("/api/groups"))["groups"]
    assert found["verdict"] == verdict(11_200, 100, 200)
    assert (found["verdict"]["kind"], found["verdict"]["level"]) == ("growing", "bad")


async def test_a_real_node(tmp_path: Path, admin: StartAdmin) -> None:
    options = NsqdOptions(data_path=str(tmp_path), tcp_address="", http_address="127.0.0.1:0",
                          broadcast_address="127.0.0.1")  # fmt: skip
    nsqd = await nsqds.start(options)
    address = f"127.0.0.1:{nsqd.ports.http}"
    try:
        running = await admin(nsqd_http_addresses=(address,))
        await post(f"http://{address}/mpub?topic=t", TIMEOUT_S, b"a\nb\nc")
        assert (await running.get("/api/groups"))["groups"] == []
        query = "?topic=t&group=g"
        await post(
            f"http://{address}/log/commit{query}&owner=q1", TIMEOUT_S, b'{"offsets":{"0":1}}'
        )
        told = b'{"id":"q1","name":"counts","state":"running","batch":0,"groups":[["t","g"]]}'
        await post(f"http://{address}/pipelines", TIMEOUT_S, told)
        (group,) = (await running.get("/api/groups?topic=t"))["groups"]
    finally:
        await nsqds.stop(nsqd)
    assert (group["group"], group["lag"], group["kind"]) == ("g", 2, "log")
    assert (group["stale"], group["expires_in"], group["owner"]) == (False, None, "q1")
    (node,) = group["nodes"]
    assert group["age"] == node["age"] >= 0
    assert (node["node"], node["committed"], node["end"]) == (address, {"0": 1}, 3)
    assert group["pipeline"].pop("age") >= 0
    assert group["pipeline"] == {"id": "q1", "name": "counts", "state": "running"}


async def test_nobody_has_the_topic(two: Two, admin: StartAdmin) -> None:
    two.lookupd.answers["/lookup"] = {"producers": []}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    assert await running.get("/api/groups?topic=no") == {"groups": [], "message": ""}


async def test_a_node_that_fails(two: Two, admin: StartAdmin) -> None:
    del two.nsqds[0].answers["/stats"]
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    found = await running.get("/api/groups")
    assert found["groups"] == []
    assert found["message"].startswith("WARNING: got response 404")
    del two.nsqds[1].answers["/stats"]
    status, body = await running.ask("GET", "/api/groups")
    assert status == 502
    assert "UPSTREAM_ERROR: failed to query any nsqd" in body


class Others:
    """Brokers beside the nodes."""

    async def groups(self, warnings: Warnings) -> list[tuple[str, NodeGroups]]:
        return [
            ("broker-a", NodeGroups([ToldTopic("t", [ToldGroup("g", 7, 1.5, {"0": 1}, 2)])])),
            ("broker-a", NodeGroups([ToldTopic("u", [ToldGroup("h", 1, 0.0, {"0": 1}, 0)])])),
        ]

    def growth(self, topic: str, group: str) -> float | None:
        return 30.0 if (topic, group) == ("t", "g") else None


async def test_groups_of_brokers_are_in_the_same_list(two: Two, admin: StartAdmin) -> None:
    for node in two.nsqds:
        node.answers["/stats"] = {
            "topics": [topic("t", consumer_groups=[GROUP | {"client_count": 1}])]
        }
    running = await admin(lookupd_http_addresses=(two.lookupd.address,))
    running.admin._groups.beside = cast(Beside, Others())
    found = (await running.get("/api/groups"))["groups"]
    assert [(each["topic"], each["group"], each["kind"], each["lag"]) for each in found] == [
        ("t", "g", "rocketmq", 13), ("u", "h", "rocketmq", 1)
    ]  # fmt: skip
    assert {each["node"] for each in found[0]["nodes"]} == {
        *(node.address for node in two.nsqds), "broker-a"
    }  # fmt: skip
    assert (found[0]["clients"], found[0]["verdict"]["growth"]) == (4, 30.0)
    assert found[1]["verdict"]["kind"] == "unattended"
    # A topic's page has a link to RocketMQ's page of it.
    (own,) = (await running.get("/api/groups?topic=t"))["groups"]
    assert own["lag"] == 6
