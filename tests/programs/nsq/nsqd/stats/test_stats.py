"""/stats; the recorded exchanges check every key and width."""

from __future__ import annotations

import asyncio
import gc
import re
import time
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.nsq.nsqd.stats import stats
from tests.programs.nsq.nsqd.conftest import MILLISECOND, Running, Start, mpub, options, pub


async def test_an_empty_broker(nsqd: Running) -> None:
    status, body = await nsqd.get("/stats?format=json")
    assert status == 200
    head = b'{"version":"1.3.0","health":"OK","start_time":%d,"topics":[],"memory":{'
    assert body.startswith(head % (nsqd.nsqd.node.started_ns // 10**9))
    assert body.endswith(b'"producers":null}')
    text = (await nsqd.get("/stats"))[1].decode()
    assert "\nHealth: OK\n" in text
    assert text.endswith("\nTopics: None\n\nProducers: None\n")


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


async def test_filters(nsqd: Running) -> None:
    for name in ("b", "a"):
        await nsqd.publish(name, b"x")
    await nsqd.post("/channel/create?topic=a&channel=c")
    path = "/stats?format=json"
    assert [t["topic_name"] for t in (await nsqd.json(path))["topics"]] == ["a", "b"]
    assert [t["topic_name"] for t in (await nsqd.json(f"{path}&channel=c"))["topics"]] == ["a"]
    assert (await nsqd.json(f"{path}&topic=b&channel=c"))["topics"] == []
    assert (await nsqd.json(f"{path}&topic=none"))["topics"] is None
    bare = await nsqd.json(f"{path}&topic=a&include_clients=false&include_mem=0")
    assert "memory" not in bare
    assert bare["producers"] is None
    assert bare["topics"][0]["channels"][0]["clients"] is None


async def test_the_memory_queue_and_what_is_behind_it(nsqd: Running) -> None:
    nsqd.nsqd.node.broker._options.channel.mem_queue_size = 2
    await nsqd.publish("t", *[b"x"] * 5)
    topic = await nsqd.topic("t")
    assert (topic["depth"], topic["backend_depth"]) == (5, 3)
    await nsqd.post("/channel/create?topic=t&channel=c")
    channel = await nsqd.channel("t")
    assert (channel["depth"], channel["backend_depth"]) == (5, 3)


async def test_text(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", ready=1)
    await nsqd.publish("t", b"x")
    await consumer.message()
    producer = await nsqd.connect()
    assert await producer.ask(pub("t", b"y")) == b"OK"
    await nsqd.post("/channel/pause?topic=t&channel=c")
    text = (await nsqd.get("/stats"))[1].decode()
    assert re.search(r"^   \[t {14}\] depth: 0     be-depth: 0     msgs: 2        e2e%: $", text,
                     re.MULTILINE)  # fmt: skip
    assert re.search(r"^   \*P \[c {24}\] depth: 1     be-depth: 0     inflt: 1    ", text,
                     re.MULTILINE)  # fmt: skip
    assert re.search(r"^        \[V2 127\.0\.0\.1:\d+ +\] state: 3 inflt: 1    rdy: 1    ", text,
                     re.MULTILINE)  # fmt: skip
    assert re.search(r"^   \[V2 127\.0\.0\.1:\d+ +\] msgs: 1        topics: t=1 connected: \d+s$",
                     text, re.MULTILINE)  # fmt: skip


async def test_bad_queries(nsqd: Running) -> None:
    assert await nsqd.get("/stats?x=%zz") == (400, b'{"message":"INVALID_REQUEST"}')


async def test_memory_figures(nsqd: Running) -> None:
    gc.collect()
    memory = (await nsqd.json("/stats?format=json"))["memory"]
    assert memory["heap_in_use_bytes"] > 10_000_000
    assert memory["heap_objects"] > 10_000
    assert memory["gc_total_runs"] > 0
    pauses = [memory[f"gc_pause_usec_{percent}"] for percent in (100, 99, 95)]
    assert pauses[0] > 0
    assert pauses == sorted(pauses, reverse=True)


# --- latencies ---------------------------------------------------------------------------------


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


def test_a_window_of_nothing_is_refused(tmp_path: Path) -> None:
    wrong = options(
        tmp_path, e2e_processing_latency_percentiles=(0.5,), e2e_processing_latency_window_time=0
    )
    with pytest.raises(ConfigError, match="--e2e-processing-latency-window-time must be"):
        wrong.check()
    options(tmp_path, e2e_processing_latency_window_time=0).check()


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
