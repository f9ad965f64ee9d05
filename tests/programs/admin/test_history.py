"""What nsqadmin remembers of nodes, how it looks at them, and what a node that is gone told."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import pytest

from penstock.admin.history import server_sent
from penstock.admin.history.history import History
from penstock.admin.history.lost_nodes import GIVEN_UP_S
from penstock.admin.history.poller import Poller
from penstock.admin.history.row_numbers import Key
from penstock.cluster.cluster import Addresses
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import ConfigError
from penstock.core.units import SECOND
from penstock.net.http.server.v1_api import plain_response
from tests.unit.admin.conftest import Running, StartAdmin, StartFake, Two, channel, topic, until
from tools.harness.ports import unused_address


class Told:
    """A poller over the two nodes, and what it told."""

    def __init__(self, two: Two, interval: float = 1000.0) -> None:
        self.times: list[float] = []
        self.messages: list[str] = []
        self.looks: list[tuple[float, list[str]]] = []
        self.history = History(10)
        self.poller = Poller(
            two.cluster, self.history, interval, SYSTEM_CLOCK, self.refreshed, self.beside
        )

    async def beside(self, time: float, addresses: Iterable[str]) -> None:
        self.looks.append((time, list(addresses)))

    def refreshed(self, time: float, message: str) -> None:
        self.times.append(time)
        self.messages.append(message)


async def test_a_look_at_all_nodes_one_of_which_then_answers_nonsense(two: Two) -> None:
    told = Told(two)
    assert await told.poller.refresh() == ""
    series = told.history.series(Key("t", "c"))
    assert series is not None
    assert series.values[0] == [8]
    assert series.times == told.times
    assert told.looks == [(told.times[0], [each.address for each in two.nsqds])]
    assert two.nsqds[0].asked == [
        "GET /stats?format=json&include_clients=false&include_mem=false&packed=true"
    ]
    told = Told(two)
    two.nsqds[0].answers["/stats"] = plain_response("oops")
    message = await told.poller.refresh()
    assert message.startswith("WARNING: Get ")
    assert told.messages == [message]
    series = told.history.series(Key("t", "c"))
    assert series is not None
    assert series.values[0] == [3]


async def test_a_cluster_that_cannot_be_asked(two: Two) -> None:
    told = Told(two)
    two.cluster.addresses = Addresses(("127.0.0.1:9",), ())
    message = await told.poller.refresh()
    assert message.startswith("UPSTREAM_ERROR: failed to query any nsqlookupd")
    assert told.history.series(Key("t")) is None


async def test_again_and_again(two: Two, caplog: pytest.LogCaptureFixture) -> None:
    told = Told(two, interval=0.01)
    two.cluster.addresses = Addresses((two.lookupd.address, "127.0.0.1:9"), ())
    told.poller.start()
    await until(lambda: len(told.messages) >= 3)
    two.cluster.addresses = Addresses((two.lookupd.address,), ())
    await until(lambda: told.messages[-1] == "")
    await told.poller.close()
    assert caplog.text.count("history: WARNING: Get") == 1  # not with every refresh
    seen = len(told.messages)
    await told.poller.close()
    assert len(told.messages) == seen


async def test_a_mistake_of_ours_costs_one_look(
    two: Two, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, looks = Told(two, interval=0.01), 0
    take = told.history.take

    def stumble(*args: Any) -> None:
        nonlocal looks
        looks += 1
        if looks <= 3:
            raise ZeroDivisionError("by nothing")
        take(*args)

    monkeypatch.setattr(told.history, "take", stumble)
    told.poller.start()
    await until(lambda: bool(told.messages))
    await told.poller.close()
    assert caplog.text.count("history: no figures this time: ZeroDivisionError: by nothing") == 1
    assert "history: all nodes answer again" in caplog.text
    assert "Traceback" not in caplog.text


async def test_an_hour(two: Two, remembering: Running) -> None:
    found = await remembering.get("/api/history?topic=t&channel=c")
    assert list(found) == ["topic", "channel", "node", "times", "depth", "in", "out", "in_flight",
                           "requeues", "timeouts", "waiting", "partial", "latencies"]  # fmt: skip
    assert (found["depth"][-1], found["waiting"][-1], found["partial"][-1]) == (8, 8, 0)
    assert len(found["times"]) == len(found["in"])
    assert (await remembering.get("/api/history"))["depth"][-1] == 8
    group = {"group_name": "g", "lag": 4, "rate": 2.5, "committed": {"0": 1}}
    two.nsqds[0].answers["/stats"]["topics"][0]["log_groups"] = [group]
    assert remembering.admin.poller is not None
    await remembering.admin.poller.refresh()
    found = await remembering.get("/api/history?topic=t&channel=@g")
    assert (found["depth"][-1], found["out"][-1], found["in"][-1]) == (4, 2.5, 0)


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("history?topic=no", 404, "HISTORY_NOT_FOUND"),
        ("history?channel=c", 404, "HISTORY_NOT_FOUND"),
        ("history?node=no:1", 404, "HISTORY_NOT_FOUND"),
        ("events?level=x", 400, "INVALID_ARG_LEVEL"),
        ("events?level=channels", 400, "INVALID_ARG_LEVEL"),
        ("events?level=Topics", 400, "INVALID_ARG_LEVEL"),
    ],
)
async def test_what_is_not_known(remembering: Running, query: str, status: int, code: str) -> None:
    answer = await remembering.ask("GET", f"/api/{query}")
    assert answer == (status, f'{{"message":"{code}"}}')


async def test_no_history(admin: StartAdmin) -> None:
    without = await admin(nsqd_http_addresses=("127.0.0.1:9",))
    for path in ("history", "events", "lost"):
        assert await without.ask("GET", f"/api/{path}") == (404, '{"message":"HISTORY_OFF"}')


async def test_events_over_a_connection(
    remembering: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", remembering.admin.http_port)
    writer.write(b"GET /api/events?topic=t HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")
    async with asyncio.timeout(30):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"\r\nContent-Type: text/event-stream\r\n" in head
        assert (await reader.readuntil(b"\n\n")).startswith(b'event: state\ndata: {"time":')
        poller = remembering.admin.poller
        assert poller is not None
        await poller.refresh()
        assert (await reader.readuntil(b"\n\n")).startswith(b"event: refresh\n")
        monkeypatch.setattr(server_sent, "WATCHERS_MAX", 1)
        assert (await remembering.ask("GET", "/api/events"))[0] == 503
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def missing_one(two: Two, remembering: Running) -> Running:
    """One that has seen both nodes, of which one is gone."""
    figures = {"depth": 7, "backend_depth": 3, "in_flight_count": 2, "client_count": 4}
    stats = {"topics": [topic("other", depth=1), topic("t", channel("c", **figures), depth=5),
                        topic("u", channel("c"))]}  # fmt: skip
    two.nsqds[0].answers["/stats"] = stats
    assert remembering.admin.poller is not None
    await remembering.admin.poller.refresh()
    del two.nsqds[0].answers["/stats"]
    await remembering.admin.poller.refresh()
    return remembering


async def test_a_topic_with_its_channels(two: Two, missing_one: Running) -> None:
    (node,) = (await missing_one.get("/api/lost?topic=t"))["nodes"]
    assert (node["node"], node["depth"]) == (two.nsqds[0].address, 13)
    assert node["until"] - node["at"] == GIVEN_UP_S
    (told,) = node["topics"]
    assert (told["topic_name"], told["depth"]) == ("t", 5)
    (found,) = told["channels"]
    assert (found["channel_name"], found["depth"], found["memory_depth"]) == ("c", 7, 4)
    assert (found["in_flight_count"], found["client_count"]) == (2, 0)
    for name in ("u", "none"):  # nothing waits in u
        assert (await missing_one.get(f"/api/lost?topic={name}"))["nodes"] == []


async def test_a_node_with_its_topics_and_the_nodes_alone(two: Two, missing_one: Running) -> None:
    (node,) = (await missing_one.get(f"/api/lost?node={two.nsqds[0].address}"))["nodes"]
    assert [each["topic_name"] for each in node["topics"]] == ["other", "t", "u"]
    assert node["topics"][1]["in_channels"]["depth"] == 7
    assert (await missing_one.get("/api/lost?node=x:1"))["nodes"] == []
    (node,) = (await missing_one.get("/api/lost"))["nodes"]
    assert node["topics"] == []


async def test_a_range_of_a_day(remembering: Running) -> None:
    found = await remembering.get("/api/history?topic=t&range=24h")
    assert found["times"] == []
    assert await remembering.ask("GET", "/api/history?range=1y") == (
        400, '{"message":"INVALID_ARG_RANGE"}',
    )  # fmt: skip


async def test_a_path_that_cannot_be_written(admin: StartAdmin) -> None:
    with pytest.raises(ConfigError, match=r"--history-path: /proc/none: No such file or directory"):
        await admin(nsqd_http_addresses=("127.0.0.1:1",), history_path="/proc/none/history")


async def test_longer_ranges_are_prometheus(two: Two, fake: StartFake, admin: StartAdmin) -> None:
    """tests/monitoring/test_history.py asks a real one."""
    prometheus = await fake()
    running = await admin(
        nsqd_http_addresses=[two.nsqds[0].address], history_interval=1000 * SECOND,
        prometheus_url=f"http://{prometheus.address}/prom/",
    )  # fmt: skip
    prometheus.answers = {"/prom/api/v1/query_range": {"data": {"result": []}}}
    found = await running.get("/api/history?topic=a%22b&channel=c&range=7d")
    assert len(found["times"]) == 336
    assert found["times"][1] - found["times"][0] == 1800
    assert set(found["depth"]) == {None}
    queries = [unquote(each) for each in prometheus.asked]
    assert any('sum(nsqd_channel_depth{topic="a\\"b",channel="c"})' in each for each in queries)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "got response 404 Not Found"),
        ("<html>", "the answer is not a Prometheus's"),
        ({"data": {"result": [{"values": [[1, "high"]]}]}}, "the answer is not a Prometheus's"),
    ],
)
async def test_a_wrong_prometheus(
    answer: Any, reason: str, fake: StartFake, admin: StartAdmin
) -> None:
    wrong = await fake()
    wrong.answers = {"/api/v1/query_range": answer} if answer else {}
    await names_the_prometheus(admin, f"http://{wrong.address}", reason)


async def test_a_prometheus_that_is_not_there(admin: StartAdmin) -> None:
    await names_the_prometheus(admin, f"http://{unused_address()}", "connection refused")


async def test_a_slow_prometheus(admin: StartAdmin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        await names_the_prometheus(admin, url, "timed out")


async def names_the_prometheus(admin: StartAdmin, url: str, reason: str) -> None:
    running = await admin(
        nsqd_http_addresses=["127.0.0.1:1"], history_interval=1000 * SECOND,
        prometheus_url=url, http_client_request_timeout=SECOND // 2,
    )  # fmt: skip
    status, body = await running.ask("GET", "/api/history?range=30d")
    message = json.loads(body)["message"]
    assert (status, message.startswith(f"UPSTREAM_ERROR: --prometheus-url {url}: ")) == (502, True)
    assert reason in message
    assert "Prometheus" in message.rpartition("; ")[2]  # the remedy
