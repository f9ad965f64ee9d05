"""/metrics of an nsqd, with what its clients did to it."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import time

from penstock.core.units import SECOND
from penstock.net.http.client.once import get
from penstock.testing.daemons import run_nsqd
from tests.metrics_pages import Page, parse
from tests.programs.nsq.nsqd.auth_server import entry, granted, run_auth_server
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Running, Start, dpub, identify, pub


async def metrics(nsqd: Running) -> Page:
    found = await get(f"http://127.0.0.1:{nsqd.nsqd.ports.http}/metrics", TIMEOUT_S)
    assert found.status == 200
    assert found.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse(found.body.decode())


async def test_unless_asked_for_there_is_no_such_page(nsqd: Running) -> None:
    assert await nsqd.get("/metrics") == (404, b'{"message":"NOT_FOUND"}')


async def test_the_daemon_and_its_process(start: Start) -> None:
    nsqd = await start(metrics=True)
    gc.collect()
    client = await nsqd.connect()
    await nsqd.until(lambda: len(nsqd.nsqd.sessions) == 1)
    found = await metrics(nsqd)
    (labels,) = (dict(labels) for _, labels in found["nsqd_build_info"].samples)
    assert labels["version"] == "1.3.0"
    assert labels.keys() == {"version", "penstock", "python"}
    assert found["nsqd_healthy"].value() == 1
    assert found["nsqd_connections"].value() == 1
    assert found["nsqd_topics"].value() == found["nsqd_channels"].value() == 0
    assert "nsqd_topic_depth" not in found
    assert found["process_cpu_seconds_total"].value() > 0
    resident = found["process_resident_memory_bytes"].value()
    assert 10e6 < resident < found["process_virtual_memory_bytes"].value()
    assert 5 < found["process_open_fds"].value() <= len(os.listdir("/proc/self/fd"))
    assert found["process_max_fds"].value() >= found["process_open_fds"].value()
    started = nsqd.nsqd.node.started_ns / 1e9
    assert math.isclose(found["process_start_time_seconds"].value(), started)
    runs = found["python_gc_collections_total"]
    assert runs.value(generation="2") >= 1
    assert len(runs.samples) == 3
    pauses = found["python_gc_pause_seconds"]
    assert pauses.value("_count") >= 1
    assert 0 < pauses.value(quantile="1") <= pauses.value("_sum")
    client.writer.close()


async def test_topics_and_channels(start: Start) -> None:
    nsqd = await start(metrics=True)
    await nsqd.publish("t", b"1", b"22", b"333")
    await nsqd.publish("u#ephemeral", b"x")
    producer = await nsqd.connect()
    assert await producer.ask(dpub("t", 60_000, b"later")) == b"OK"
    consumer = await nsqd.consumer("t", ready=2)
    first, second = await consumer.messages(2)
    consumer.send(b"FIN %s\nREQ %s 0\nRDY 0\n" % (first.id, second.id))
    channel = nsqd.nsqd.node.broker.topics["t"].channels["c"]
    await nsqd.until(lambda: channel.requeue_count == 1)
    await nsqd.post("/channel/pause?topic=t&channel=c")
    found = await metrics(nsqd)
    here = {"topic": "t", "channel": "c"}
    stats = await nsqd.channel("t")
    for name, key in (
        ("depth", "depth"),
        ("backend_depth", "backend_depth"),
        ("in_flight", "in_flight_count"),
        ("deferred", "deferred_count"),
        ("messages_total", "message_count"),
        ("requeues_total", "requeue_count"),
        ("timeouts_total", "timeout_count"),
        ("clients", "client_count"),
        ("paused", "paused"),
    ):
        assert found[f"nsqd_channel_{name}"].value(**here) == stats[key], name
    assert found["nsqd_channel_deferred"].value(**here) == 1
    assert found["nsqd_channel_deliveries_total"].value(**here) >= 2
    assert found["nsqd_channel_lost_total"].value(**here) == 0
    assert found["nsqd_topic_messages_total"].value(topic="t") == 4
    assert found["nsqd_topic_message_bytes_total"].value(topic="t") == 11
    assert found["nsqd_topic_depth"].value(topic="u#ephemeral") == 1
    assert found["nsqd_topic_paused"].value(topic="t") == 0
    assert (found["nsqd_topics"].value(), found["nsqd_channels"].value()) == (2, 1)
    assert "nsqd_channel_e2e_latency_seconds" not in found


async def test_what_was_refused_dropped_and_moved(start: Start) -> None:
    nsqd = await start(metrics=True, max_depth=3, max_attempts=1)
    await nsqd.publish("full", b"1", b"2", b"3")
    producer = await nsqd.connect()
    assert (await producer.error(pub("full", b"4"))).startswith("E_PUB_FAILED")
    await nsqd.publish("poison", b"x")
    consumer = await nsqd.consumer("poison", ready=1)
    (message,) = await consumer.messages(1)
    consumer.send(b"REQ %s 0\n" % message.id)
    topics = nsqd.nsqd.node.broker.topics
    await nsqd.until(lambda: topics["poison"].channels["c"].dead_letter_count == 1)
    await nsqd.post("/topic/config?topic=full", b'{"overflow":"drop-oldest"}')
    await nsqd.publish("full", b"5", b"6")
    found = await metrics(nsqd)
    assert found["nsqd_topic_refused_total"].value(topic="full") == 1
    assert found["nsqd_topic_dropped_total"].value(topic="full") == 2
    assert found["nsqd_channel_dead_letters_total"].value(topic="poison", channel="c") == 1
    assert found["nsqd_channel_dropped_total"].value(topic="poison", channel="c") == 0


async def test_drops_of_ephemeral_topics_and_channels(start: Start) -> None:
    nsqd = await start(metrics=True, mem_queue_size=2)
    await nsqd.publish("t#ephemeral", b"1", b"2")
    await nsqd.publish("t#ephemeral", b"3")
    topic = nsqd.nsqd.node.registry.topic("u")
    nsqd.nsqd.node.registry.channel(topic, "c#ephemeral")
    await nsqd.publish("u", b"1", b"2", b"3")
    found = await metrics(nsqd)
    assert found["nsqd_topic_dropped_total"].value(topic="t#ephemeral") == 1
    assert found["nsqd_channel_dropped_total"].value(topic="u", channel="c#ephemeral") == 1
    assert found["nsqd_channel_depth"].value(topic="u", channel="c#ephemeral") == 2


async def test_connections_by_their_layers(start: Start) -> None:
    nsqd = await start(metrics=True)
    client = await nsqd.connect()
    await client.ask(identify(feature_negotiation=True, snappy=True))
    await nsqd.connect()
    await nsqd.until(lambda: len(nsqd.nsqd.sessions) == 2)
    found = await metrics(nsqd)
    assert found["nsqd_connections"].value() == 2
    assert found["nsqd_tls_connections"].value() == 0
    assert found["nsqd_compressed_connections"].value(compression="snappy") == 1
    assert found["nsqd_compressed_connections"].value(compression="deflate") == 0
    assert "nsqd_auth_queries_total" not in found


async def test_auth(start: Start) -> None:
    with run_auth_server() as server:
        nsqd = await start(metrics=True, auth_http_addresses=(server.address,))
        client = await nsqd.connect()
        server.answers["known"] = granted(entry("^t$"))
        await client.ask(b"AUTH\n\x00\x00\x00\x05known")
        assert (await client.error(pub("other", b"x"))).startswith("E_UNAUTHORIZED")
        stranger = await nsqd.connect()
        assert await stranger.error(b"AUTH\n\x00\x00\x00\x01x") == "E_AUTH_FAILED AUTH failed"
        found = await metrics(nsqd)
    assert found["nsqd_auth_queries_total"].value() == 2
    assert found["nsqd_auth_failures_total"].value() == 1
    assert found["nsqd_auth_denials_total"].value() == 1


async def test_latencies(start: Start) -> None:
    nsqd = await start(metrics=True, e2e_processing_latency_percentiles=(0.99, 0.5))
    before = time.time_ns()
    await nsqd.publish("t", b"1", b"2")
    for name in ("c", "d"):
        nsqd.nsqd.node.registry.channel(nsqd.nsqd.node.broker.topics["t"], name)
    empty = (await metrics(nsqd))["nsqd_channel_e2e_latency_seconds"]
    assert math.isnan(empty.value(topic="t", channel="c", quantile="0.99"))
    assert empty.value("_count", topic="t", channel="c") == 0
    consumer = await nsqd.consumer("t", "c", ready=2)
    for message in await consumer.messages(2):
        consumer.send(b"FIN %s\n" % message.id)
    channel = nsqd.nsqd.node.broker.topics["t"].channels["c"]
    await nsqd.until(lambda: channel.state.in_flight_count == 0)
    longest = (time.time_ns() - before) / SECOND
    found = await metrics(nsqd)
    of_channel = found["nsqd_channel_e2e_latency_seconds"]
    assert of_channel.value("_count", topic="t", channel="c") == 2
    total = of_channel.value("_sum", topic="t", channel="c")
    high = of_channel.value(topic="t", channel="c", quantile="0.99")
    low = of_channel.value(topic="t", channel="c", quantile="0.5")
    assert 0 < low <= high < longest
    assert math.isclose(low + high, total)
    of_topic = found["nsqd_topic_e2e_latency_seconds"]
    assert of_topic.value(topic="t", quantile="0.99") == high
    assert of_topic.value("_count", topic="t") == 2


async def test_groups_that_read_the_log(start: Start) -> None:
    nsqd = await start(metrics=True)
    await nsqd.publish("t", b"1", b"2", b"3")
    assert "nsqd_log_group_lag" not in await metrics(nsqd)
    await nsqd.post("/log/commit?topic=t&group=g", b'{"offsets":{"0":1}}')
    found = await metrics(nsqd)
    assert found["nsqd_log_group_lag"].value(topic="t", group="g") == 2
    assert 0 <= found["nsqd_log_group_age_seconds"].value(topic="t", group="g") < 60


async def test_a_page_of_many_channels_lets_others_work_in_between(start: Start) -> None:
    nsqd = await start(metrics=True)
    for topic in range(40):
        made = nsqd.nsqd.node.broker.topic(f"t{topic}#ephemeral")
        for channel in range(10):
            made.channel(f"c{channel}#ephemeral")
    page = asyncio.create_task(metrics(nsqd))
    turns = 0
    while not page.done():
        turns += 1
        await asyncio.sleep(0)
    found = await page
    assert turns > 4
    assert len(found["nsqd_channel_depth"].samples) == 400
    assert found["nsqd_channels"].value() == 400


def test_the_flag_of_the_program() -> None:
    async def fetch(url: str) -> str:
        return (await get(url, TIMEOUT_S)).body.decode()

    with run_nsqd("--metrics", "--e2e-processing-latency-percentile=0.5") as daemon:
        found = parse(asyncio.run(fetch(f"http://{daemon.http}/metrics")))
        assert found["nsqd_healthy"].value() == 1
        assert "GET /metrics" not in daemon.log()
