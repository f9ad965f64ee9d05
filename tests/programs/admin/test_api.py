"""What pages ask nsqadmin about: topics, channels, groups, pipelines, damage and Graphite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.admin.history.server_sent import Events
from penstock.admin.rocketmq.other_brokers import OtherBrokers
from penstock.admin.verdicts.rule import verdict
from penstock.cluster.fanout import Warnings
from penstock.cluster.groups import NodeGroups, ReportedGroup, ReportedGroups
from penstock.core.units import SECOND
from penstock.net.http.client.once import post
from penstock.net.http.server.v1_api import plain_response
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from tests import nsqds
from tests.unit.admin.conftest import (
    TIMEOUT_S,
    FakeDaemon,
    Running,
    StartAdmin,
    StartFake,
    Two,
    channel,
    topic,
)


@pytest.fixture
async def direct(two: Two, admin: StartAdmin) -> Running:
    nodes = tuple(each.address for each in two.nsqds)
    return await admin(nsqd_http_addresses=nodes)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("a;b", "invalid semicolon separator in query"),
        ("x=1&inactive=%zz", 'invalid URL escape \\"%zz\\"'),
        ("inactive=%", 'invalid URL escape \\"%\\"'),
    ],
)
async def test_a_bad_query(running: Running, query: str, text: str) -> None:
    status, body = await running.ask("GET", f"/api/topics?{query}")
    assert (status, body) == (400, f'{{"message":"{text}"}}')


async def test_a_topic_and_a_channel(running: Running) -> None:
    found = await running.get("/api/topics/t")
    assert (found["node"], found["message_count"], found["message"]) == ("*", 8, "")
    assert [each["hostname"] for each in found["nodes"]] == ["a", "b"]
    assert list(found)[-1] == "message"
    assert (await running.get("/api/topics/t/c"))["depth"] == 8
    assert await running.ask("GET", "/api/topics/t/d") == (404, '{"message":"CHANNEL_NOT_FOUND"}')


async def test_without_producers(running: Running, direct: Running, two: Two) -> None:
    two.lookupd.answers["/lookup"] = {"producers": []}
    assert (await running.get("/api/topics/t"))["nodes"] == []
    assert (await running.ask("GET", "/api/topics/t/c"))[0] == 404
    assert await direct.ask("GET", "/api/topics/u") == (404, '{"message":"TOPIC_NOT_FOUND"}')
    two.lookupd.answers["/nodes"] = {"producers": []}
    assert await running.get("/api/counter") == {"stats": {}, "message": ""}


async def test_nodes_without_their_topics(running: Running) -> None:
    nodes = (await running.get("/api/nodes"))["nodes"]
    bare = (await running.get("/api/nodes?topics=false"))["nodes"]
    assert bare == [{**each, "topics": None} for each in nodes]


async def test_who_answers_nonsense_is_a_warning_and_who_does_not_may_have_it(
    direct: Running, two: Two
) -> None:
    two.nsqds[0].answers["/stats"] = plain_response("<html>")
    found = await direct.get("/api/counter")
    assert len(found["stats"]) == 1
    assert "the answer is not what is expected" in found["message"]
    two.nsqds[0].answers["/stats"] = plain_response("", 500)
    for path in ("/api/topics/u", "/api/topics/u/c", "/api/topics/t/other"):
        status, body = await direct.ask("GET", path)
        assert status == 502
        assert "UPSTREAM_ERROR: got response 500" in body


async def test_names_that_attack_a_page_or_a_parser(running: Running, two: Two) -> None:
    """Go escapes these in JSON; nothing of them gets into a query unescaped."""
    evil = "%3Cscript%3E%26%23%ff"
    status, body = await running.ask("GET", f"/api/topics/{evil}")
    assert status == 200
    assert "<" not in body
    assert json.loads(body)["topic_name"] == "<script>&#\ufffd"
    assert two.lookupd.asked == ["GET /lookup?topic=%3Cscript%3E%26%23%EF%BF%BD"]
    two.nsqds[0].answers["/stats"] = {"topics": [topic("t", channel("</script>\u2028"))]}
    _, body = await running.ask("GET", "/api/topics/t")
    assert r"\u003c/script\u003e\u2028" in body


@pytest.mark.parametrize(
    "path",
    ["damage?topic=%ff", "groups?topic=%ff", "messages?topic=%ff",
     "rewind?topic=%ff&channel=c&from=oldest", "topics/%ff", "topics/%ff/c"],
)  # fmt: skip
async def test_a_name_that_is_no_utf_8_is_nobodys(direct: Running, path: str) -> None:
    status, body = await direct.ask("GET", f"/api/{path}")
    assert status in (200, 404), body


GROUP = {"group_name": "g", "committed": {"0": 2}, "lag": 3, "rate": 1.0}


async def test_groups_over_the_nodes(two: Two, running: Running) -> None:
    for node in two.nsqds:
        node.answers["/stats"] = {"topics": [topic("t", log_groups=[GROUP])]}
    told = {"lag": 3, "rate": 1, "committed": {"0": 2}, "end": 5, "clients": 0, "age": None}
    nodes = [{"node": node.address, **told} for node in two.nsqds]
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
    # Nodes that fail are a warning, and all of them an error.
    del two.nsqds[0].answers["/stats"]
    assert (await running.get("/api/groups"))["message"].startswith("WARNING: got response 404")
    del two.nsqds[1].answers["/stats"]
    status, body = await running.ask("GET", "/api/groups")
    assert status == 502
    assert "UPSTREAM_ERROR: failed to query any nsqd" in body
    two.lookupd.answers["/lookup"] = {"producers": []}
    assert await running.get("/api/groups?topic=no") == {"groups": [], "message": ""}


async def test_the_verdict_looks_at_how_the_lag_grew(
    two: Two, admin: StartAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Events, "growth", lambda self, *names: {("t", "g"): 100.0}[names])
    group = GROUP | {"lag": 5600, "rate": 100.0}
    for node in two.nsqds:
        node.answers["/stats"] = {"topics": [topic("t", log_groups=[group])]}
    running = await admin(lookupd_http_addresses=(two.lookupd.address,), history_interval=10**12)
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


class Others:
    """Brokers beside the nodes."""

    async def groups(self, warnings: Warnings) -> list[tuple[str, NodeGroups]]:
        return [
            (
                "broker-a",
                NodeGroups([ReportedGroups("t", [ReportedGroup("g", 7, 1.5, {"0": 1}, 2)])]),
            ),
            (
                "broker-a",
                NodeGroups([ReportedGroups("u", [ReportedGroup("h", 1, 0.0, {"0": 1}, 0)])]),
            ),
        ]

    def growth(self, topic: str, group: str) -> float | None:
        return 30.0 if (topic, group) == ("t", "g") else None


async def test_groups_of_brokers_are_in_the_same_list(two: Two, running: Running) -> None:
    for node in two.nsqds:
        node.answers["/stats"] = {
            "topics": [topic("t", consumer_groups=[GROUP | {"client_count": 1}])]
        }
    running.admin._groups.beside = cast(OtherBrokers, Others())
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


DAMAGED = {"topic_name": "t", "lost_count": 4, "damage": ["cursors.journal: damaged"]}


async def test_damage_over_the_nodes(two: Two, running: Running) -> None:
    """A Go nsqd, which answers 404, counts as a node without damage."""
    two.nsqds[0].answers["/damage"] = {"topics": [DAMAGED, {"topic_name": "u", "lost_count": 1}]}
    assert await running.get("/api/damage") == {
        "damage": [{"node": two.nsqds[0].address, "topic": "t", "lost": 4,
                    "damage": ["cursors.journal: damaged"]}],
        "message": "",
    }  # fmt: skip
    await running.get("/api/damage?topic=t")
    assert two.nsqds[0].asked[-1] == "GET /damage?topic=t"
    two.nsqds[0].answers["/damage"] = {"topics": 1}
    found = await running.get("/api/damage")
    assert (found["damage"], found["message"][:9]) == ([], "WARNING: ")


def status(**more: Any) -> dict[str, Any]:
    return {"id": "q1", "name": "counts", "state": "running", "sql": "select 1", "age": 1.5,
            "rows_read": 10, "batch": 0, "read_per_s": 2.5, **more}  # fmt: skip


async def test_pipelines_over_the_nodes(two: Two, running: Running) -> None:
    del two.nsqds[0].answers["/stats"]
    two.nsqds[1].answers["/pipelines"] = {"pipelines": [status()]}
    found = await running.get("/api/pipelines")
    (pipeline,) = found["pipelines"]
    assert found["message"] == ""  # a node without the page, as Go's, has no pipelines
    assert (pipeline["name"], pipeline["rows_read"], pipeline["trend"]) == ("counts", 10, [])
    assert pipeline["nodes"] == [two.nsqds[1].address]
    assert "sql" not in pipeline
    assert (await running.get("/api/pipelines/q1"))["history"] is None
    two.nsqds[0].answers["/pipelines"] = plain_response("oops")
    found = await running.get("/api/pipelines")
    assert (len(found["pipelines"]), found["message"][:9]) == (1, "WARNING: ")


async def test_one_with_its_past(two: Two, remembering: Running) -> None:
    two.nsqds[1].answers["/pipelines"] = {"pipelines": [status(), status(id="a b/#")]}
    assert remembering.admin.poller is not None
    await remembering.admin.poller.refresh()
    found = await remembering.get("/api/pipelines/q1")
    assert (found["sql"], found["message"]) == ("select 1", "")
    assert found["history"]["read_per_s"][-1] == 2.5
    assert (await remembering.get("/api/pipelines"))["pipelines"][1]["trend"][-1] == 2.5
    gone = await remembering.ask("GET", "/api/pipelines/none")
    assert gone == (404, '{"message":"PIPELINE_NOT_FOUND"}')


RATE = "/api/graphite?metric=rate&target=sumSeries(a.b%20c)"


@pytest.fixture
async def graphite(fake: StartFake) -> FakeDaemon:
    return await fake()


@pytest.fixture
async def proxying(graphite: FakeDaemon, admin: StartAdmin) -> Running:
    return await admin(
        nsqd_http_addresses=("127.0.0.1:9",),
        graphite_url=f"http://{graphite.address}",
        proxy_graphite=True,
        statsd_interval=10 * SECOND,
        base_path="/x",
    )


@pytest.mark.parametrize(
    ("answer", "rate"),
    [
        ([{"target": "x", "datapoints": [[1234.5, 1700000000]]}], "123.45"),
        ([{"target": "x", "datapoints": [[0, 1]]}], "0.00"),
        ([{"target": "x", "datapoints": [[None, 1]]}], "N/A"),
        ([{"target": "x", "datapoints": []}], "N/A"),
        ([{"target": "x"}], "N/A"),
        ([], "N/A"),
    ],
)
async def test_rates_of_graphite(
    proxying: Running, graphite: FakeDaemon, answer: Any, rate: str
) -> None:
    graphite.answers["/render"] = answer
    assert await proxying.ask("GET", "/x" + RATE) == (200, f'{{"rate":"{rate}"}}')
    query = "format=json&from=-20sec&target=sumSeries%28a.b+c%29&until=-10sec"
    assert graphite.asked == [f"GET /render?{query}"]


async def test_graphite_that_makes_no_sense_or_is_gone(
    proxying: Running, graphite: FakeDaemon
) -> None:
    graphite.answers["/render"] = {"target": "x"}
    broken = (500, '{"message":"INTERNAL_ERROR"}')
    assert await proxying.ask("GET", "/x" + RATE) == broken
    await graphite.listener.close()
    graphite.server.close_connections()
    assert (await proxying.ask("GET", "/x/render?target=a"))[0] == 502
