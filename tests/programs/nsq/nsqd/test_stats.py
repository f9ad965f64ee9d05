"""/stats, packed or not, and what is pushed to a statsd; recorded exchanges check every key."""

from __future__ import annotations

import asyncio
import base64
import gc
import logging
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from penstock.net.http.server.v1_api import Query
from penstock.node.dialect import Dialect
from penstock.nsq.nsqd.stats import stats, statsd_push
from penstock.nsq.nsqd.stats.statsd import StatsdLines
from tests.programs.nsq.nsqd.conftest import (
    MILLISECOND,
    TIMEOUT_S,
    Running,
    Start,
    mpub,
    pub,
)
from tests.unit.nsq.nsqd.test_stats import Groups


async def test_counts(nsqd: Running) -> None:
    producer = await nsqd.connect()
    assert await producer.ask(mpub("t", b"1", b"22", b"333")) == b"OK"
    assert await producer.ask(pub("u", b"x")) == b"OK"
    consumer = await nsqd.consumer("t", ready=2)
    first, _ = await consumer.messages(2)
    consumer.send(b"RDY 1\nFIN %s\n" % first.id)
    await nsqd.until(
        lambda: nsqd.nsqd.node.broker.topics["t"].channels["c"].state.in_flight_count == 1
    )
    topic = await nsqd.topic("t")
    assert (topic["depth"], topic["message_count"], topic["message_bytes"]) == (0, 3, 6)
    channel = topic["channels"][0]
    assert (channel["depth"], channel["in_flight_count"], channel["message_count"]) == (1, 1, 3)
    (client,) = channel["clients"]
    assert (client["state"], client["ready_count"], client["in_flight_count"]) == (3, 1, 1)
    assert (client["message_count"], client["finish_count"]) == (2, 1)
    (publisher,) = (await nsqd.json("/stats?format=json"))["producers"]
    assert publisher["pub_counts"] == [{"topic": "t", "count": 3}, {"topic": "u", "count": 1}]


async def test_memory_figures(nsqd: Running) -> None:
    gc.collect()
    memory = (await nsqd.json("/stats?format=json"))["memory"]
    assert memory["heap_in_use_bytes"] > 10_000_000
    assert memory["heap_objects"] > 10_000
    assert memory["gc_total_runs"] > 0
    pauses = [memory[f"gc_pause_usec_{percent}"] for percent in (100, 99, 95)]
    assert pauses[0] > 0
    assert pauses == sorted(pauses, reverse=True)


# --- latencies


async def finish_one(nsqd: Running, topic: str, channel: str) -> None:
    consumer = await nsqd.consumer(topic, channel)
    consumer.send(b"FIN %s\n" % (await consumer.message()).id)
    found = nsqd.nsqd.node.broker.topics[topic].channels[channel]
    await nsqd.until(lambda: found.state.in_flight_count == 0)


async def test_latencies_of_channels_and_their_topic(start: Start) -> None:
    nsqd = await start(e2e_processing_latency_percentiles=(0.99, 0.5))
    for name in ("a", "b"):
        nsqd.nsqd.node.registry.channel(nsqd.nsqd.node.registry.topic("t"), name)
    before = time.time_ns()
    await nsqd.publish("t", b"x")
    await finish_one(nsqd, "t", "a")
    shorter = time.time_ns() - before
    assert (await nsqd.channel("t", "b"))["e2e_processing_latency"] == {
        "count": 0,
        "percentiles": [{"quantile": 0.99, "value": 0}, {"quantile": 0.5, "value": 0}],
    }
    await asyncio.sleep(0.02)
    await finish_one(nsqd, "t", "b")
    longest = time.time_ns() - before
    found = await nsqd.topic("t")
    first, second = (each["e2e_processing_latency"] for each in found["channels"])
    assert first["count"] == second["count"] == 1
    slow, quick = (each["percentiles"][0]["value"] for each in (second, first))
    assert 0 < quick < shorter
    assert quick + 19 * MILLISECOND < slow < longest  # it slept for 20
    assert found["e2e_processing_latency"] == {
        "count": 2,
        "percentiles": [{"quantile": 0.99, "value": slow}, {"quantile": 0.5, "value": quick}],
    }
    text = (await nsqd.get("/stats?topic=t"))[1].decode()
    assert f" e2e%: {stats.human_duration(slow)}, {stats.human_duration(quick)}\n" in text


async def test_a_topic_without_channels_has_no_latency(start: Start) -> None:
    nsqd = await start(e2e_processing_latency_percentiles=(0.5,))
    await nsqd.publish("t", b"x")
    found = (await nsqd.topic("t"))["e2e_processing_latency"]
    assert found == {"count": 0, "percentiles": None}


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0.0ns"),
        (1000, "1000.0ns"),
        (1001, "1.0us"),
        (45_600_000, "45.6ms"),
        (1_000_000_000, "1000.0ms"),
        (1_234_000_000, "1.2s"),
        (3_600_000_000_000, "3600.0s"),
    ],
)
def test_durations_as_nsq_shows_latencies(ns: float, shown: str) -> None:
    assert stats.human_duration(ns) == shown


# --- packed


PACKED = "/stats?format=json&packed=true"


def rows(answer: dict[str, Any]) -> list[dict[str, int]]:
    """The figures of each topic, then of each channel."""
    names = answer["figures"]
    found = struct.iter_unpack(f"<{len(names)}q", base64.b64decode(answer["packed"]))
    return [dict(zip(names, row, strict=True)) for row in found]


async def test_nothing(nsqd: Running) -> None:
    answer = await nsqd.json(PACKED)
    assert list(answer) == ["packed", "figures", "topics", "channels", "latencies", "groups",
                            "version", "health", "start_time"]  # fmt: skip
    assert (answer["packed"], answer["topics"], answer["channels"]) == ("", [], [])
    assert answer["start_time"] == nsqd.nsqd.node.started_ns // 10**9
    assert b"\nTopics: None\n" in (await nsqd.get("/stats?packed=true"))[1]


async def test_the_same_figures_as_without(nsqd: Running) -> None:
    for topic, channel in (("t", "b"), ("t", "c"), ("u", "d")):
        await nsqd.post(f"/topic/create?topic={topic}")
        await nsqd.post(f"/channel/create?topic={topic}&channel={channel}")
    producer = await nsqd.connect()
    assert await producer.ask(mpub("t", b"1", b"22", b"333")) == b"OK"
    await nsqd.post("/channel/pause?topic=u&channel=d")
    consumer = await nsqd.consumer("t", ready=2)
    await consumer.messages(2)
    plain = (await nsqd.json("/stats?format=json"))["topics"]
    channels = [each for topic in plain for each in topic["channels"]]
    answer = await nsqd.json(PACKED)
    assert answer["topics"] == ["t", "u"]
    assert answer["channels"] == [["b", "c"], ["d"]]
    assert rows(answer) == [
        {name: each.get(name, 0) for name in answer["figures"]} for each in [*plain, *channels]
    ]
    assert [row["in_flight_count"] for row in rows(answer)] == [0, 0, 0, 2, 0]
    assert [row["paused"] for row in rows(answer)] == [0, 0, 0, 0, 1]
    one = await nsqd.json(f"{PACKED}&topic=u")
    assert (one["topics"], len(rows(one))) == (["u"], 2)
    assert (answer["latencies"], answer["groups"]) == ([], [])


async def test_packed_latencies(start: Start) -> None:
    nsqd = await start(e2e_processing_latency_percentiles=(0.99, 0.5))
    consumer = await nsqd.consumer("t", ready=1)
    await nsqd.publish("t", b"x")
    consumer.send(b"FIN %s\n" % (await consumer.message()).id)
    channel = nsqd.nsqd.node.broker.topics["t"].channels["c"]
    await nsqd.until(lambda: channel.state.in_flight_count == 0)
    topic = await nsqd.topic("t")
    expected = [
        [each["quantile"], each["value"]] for each in topic["e2e_processing_latency"]["percentiles"]
    ]
    assert (await nsqd.json(PACKED))["latencies"] == [[0, expected], [1, expected]]


async def test_groups(nsqd: Running) -> None:
    await nsqd.publish("t", b"x")
    await nsqd.publish("u", b"x")
    nsqd.nsqd.node.dialects.append(cast(Dialect, Groups()))
    (found,) = (await nsqd.json(PACKED))["groups"]
    plain = await nsqd.topic("t")
    assert (found["topic_name"], found["log_groups"]) == ("t", [])
    shown = [{**each, "clients": None} for each in plain["consumer_groups"]]
    assert found["consumer_groups"] == shown


# --- statsd: a UDP socket that really receives


@pytest.fixture
def statsd() -> Iterator[socket.socket]:
    """A socket that datagrams can be sent to."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(TIMEOUT_S)
        yield sock


def address(sock: socket.socket) -> str:
    return f"127.0.0.1:{sock.getsockname()[1]}"


def receive(sock: socket.socket) -> str:
    data = sock.recv(65536)
    assert data.endswith(b"\n")
    return data.decode()


async def test_the_values_arrive(start: Start, statsd: socket.socket) -> None:
    nsqd = await start(
        statsd_address=address(statsd),
        statsd_interval=100 * MILLISECOND,
        statsd_prefix="test.%s",
        statsd_udp_packet_size=100_000,
        e2e_processing_latency_percentiles=(0.99,),
    )
    await nsqd.publish("t", b"x", b"yy")
    nsqd.nsqd.node.registry.channel(nsqd.nsqd.node.broker.topics["t"], "c")
    pushes: list[str] = []
    while not pushes or "channel.c" not in pushes[-1]:
        pushes.append(await asyncio.to_thread(receive, statsd))
    lines = pushes[-1].splitlines()
    prefix = f"test.127_0_0_1_{nsqd.nsqd.ports.http}."
    assert all(line.startswith(prefix) for line in lines)
    assert f"{prefix}topic.t.channel.c.depth:2|g" in lines
    assert f"{prefix}topic.t.channel.c.e2e_processing_latency_99:0|g" in lines
    assert any(line.startswith(f"{prefix}mem.heap_objects:") for line in lines)
    told = [line for push in pushes for line in push.splitlines() if "t.message_bytes" in line]
    assert sum(int(line.split(":")[1].removesuffix("|c")) for line in told) == 3
    later = (await asyncio.to_thread(receive, statsd)).splitlines()
    assert f"{prefix}topic.t.message_count:0|c" in later


async def test_packets_are_small_and_spread_over_the_interval(
    start: Start, statsd: socket.socket
) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    await start(
        statsd_address=address(statsd),
        statsd_interval=2000 * MILLISECOND,
        statsd_udp_packet_size=50,
    )
    times = []
    for _ in range(9):
        packet = await asyncio.to_thread(receive, statsd)
        times.append(loop.time() - started)
        assert packet.count("\n") == 1
    assert times[0] >= 2
    assert times[-1] >= 2.8  # eight ninths of a second later, whenever the first was received


async def test_what_is_left_of_a_push_goes_out_when_nsqd_stops(
    start: Start, statsd: socket.socket
) -> None:
    nsqd = await start(statsd_address=address(statsd), statsd_udp_packet_size=1)
    push = nsqd.nsqd.statsd
    sending = asyncio.create_task(push._push(StatsdLines(""), Query({}), 60.0))
    await asyncio.to_thread(receive, statsd)
    assert not sending.done()
    await nsqd.stop()
    await asyncio.wait_for(sending, TIMEOUT_S)  # of an interval of 60 s
    rest = [await asyncio.to_thread(receive, statsd) for _ in range(8)]
    assert rest[-1].startswith("mem.gc_runs:")


async def test_without_memory(start: Start, statsd: socket.socket) -> None:
    nsqd = await start(
        statsd_address=address(statsd),
        statsd_interval=50 * MILLISECOND,
        statsd_mem_stats=False,
    )
    await nsqd.publish("t", b"x")
    assert "mem." not in await asyncio.to_thread(receive, statsd)


@pytest.mark.parametrize("wrong", ["unknown.host:8125", "a..b:1", "127.0.0.1", "127.0.0.1:what"])
async def test_an_address_that_cannot_be_used_is_a_warning(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    real = socket.getaddrinfo

    def lookup(host: str, *rest: Any, **more: Any) -> Any:
        if host == "unknown.host":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with caplog.at_level(logging.WARNING, "penstock.nsqd"):
        nsqd = await start(statsd_address=wrong, statsd_interval=20 * MILLISECOND)
        await nsqd.until(lambda: caplog.text.count(f"STATSD: cannot send to {wrong}") >= 2)
    await nsqd.publish("t", b"x")
    assert (await nsqd.topic("t"))["message_count"] == 1
    assert "Traceback" not in caplog.text


async def test_a_silent_name_server_is_not_waited_for(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_datagram_endpoint", hang)
    monkeypatch.setattr(statsd_push, "DIAL_S", 0.01)
    with caplog.at_level(logging.WARNING, "penstock.nsqd"):
        nsqd = await start(statsd_address="h:1", statsd_interval=20 * MILLISECOND)
        await nsqd.until(lambda: "STATSD: cannot send to h:1" in caplog.text)
        await nsqd.stop()
    assert "trying again in the next interval - timed out" in caplog.text


async def test_nobody_listening_does_not_matter(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        free = address(sock)
    with caplog.at_level(logging.INFO, "penstock.nsqd"):
        nsqd = await start(
            statsd_address=free, statsd_interval=20 * MILLISECOND, statsd_udp_packet_size=20
        )
        await nsqd.until(lambda: caplog.text.count("STATSD: pushing") >= 3)
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_a_failure_inside_is_logged_and_the_next_push_comes(
    start: Start,
    statsd: socket.socket,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError

    monkeypatch.setattr("penstock.nsq.nsqd.stats.stats.collect", broken)
    await start(statsd_address=address(statsd), statsd_interval=20 * MILLISECOND)
    assert "mem.heap_objects" in await asyncio.to_thread(receive, statsd)
    assert "STATSD: push failed" in caplog.text
