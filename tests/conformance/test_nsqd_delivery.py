"""Delivery as consumers rely on it: ready counts, time-outs, buffers, channels that come and go."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter

import pytest

from .conftest import Start
from .server import Client, Server, dpub, identify, until

ROOMY = [
    "--max-output-buffer-size=524288",
    "--max-output-buffer-timeout=1s",
    "--max-heartbeat-interval=300s",
]
OURS = "PENSTOCK_NSQD" not in os.environ
SOON_TIMED_OUT = "--msg-timeout=1500ms"
"""Soon to wait for. What has to come before may take longer on a busy machine: then the messages
come once more, so the tests count how often they came.
"""


async def not_ready(nsqd: Server, topic: str, consumer: Client) -> None:
    """Set the only consumer's ready count to 0, and wait until nsqd knows."""
    await consumer.ready(0)

    async def is_known() -> bool:
        (client,) = (await nsqd.channel(topic))["clients"]
        return int(client["ready_count"]) == 0

    await until(is_known, lambda: "a ready count of 0")


async def all_timed_out(nsqd: Server, topic: str, count: int) -> int:
    """Wait until so many messages wait again; how many deliveries have timed out."""
    await nsqd.until_channel(topic, in_flight_count=0, depth=count, requeue_count=0)
    return int((await nsqd.channel(topic))["timeout_count"])


# --- one consumer


async def test_identify_subscribe_and_receive(nsqd: Server, topic: str) -> None:
    consumer = await nsqd.client()
    answer = await consumer.identify(client_id="c")
    assert answer["max_rdy_count"] == 2500
    await consumer.subscribe(topic, ready=1)
    await nsqd.publish(topic, b"body")
    message = await consumer.message()
    assert (message.attempts, message.body, len(message.id)) == (1, b"body", 16)


async def test_ready_lowered_below_what_is_in_flight(nsqd: Server, topic: str) -> None:
    await nsqd.publish(topic, *[b"%d" % number for number in range(10)])
    consumer = await nsqd.consumer(topic, ready=5)
    first = await consumer.messages(5)
    await consumer.ready(2)
    for message in first[:3]:
        await consumer.finish(message)
    await nsqd.until_channel(topic, in_flight_count=2, depth=5)
    assert await consumer.silent(0.05)
    await consumer.finish(first[3])
    await consumer.message()
    await nsqd.until_channel(topic, in_flight_count=2, depth=4)


async def test_touch_puts_the_deadline_off(start: Start, topic: str) -> None:
    nsqd = await start("--msg-timeout=14s")  # a machine that is busy for 10 s is to change nothing
    await nsqd.publish(topic, b"x")
    consumer = await nsqd.consumer(topic, ready=1)
    message = await consumer.message()
    for _ in range(6):
        await asyncio.sleep(2.5)
        await consumer.send(b"TOUCH %s\n" % message.id)
    await consumer.finish(message)
    await nsqd.until_channel(topic, in_flight_count=0, timeout_count=0, requeue_count=0)
    assert await consumer.silent(0.05)


async def test_a_message_that_timed_out_is_not_in_flight(start: Start, topic: str) -> None:
    nsqd = await start()
    await nsqd.publish(topic, b"x")
    consumer = await nsqd.client()
    await consumer.identify(msg_timeout=1000)
    await consumer.subscribe(topic, ready=1)
    message = await consumer.message()
    await not_ready(nsqd, topic, consumer)
    await consumer.messages(await all_timed_out(nsqd, topic, 1) - 1)
    assert await consumer.error(b"FIN %s\n" % message.id) == (
        f"E_FIN_FAILED FIN {message.id.decode()} failed ID not in flight"
    )


async def test_many_in_flight_all_time_out(start: Start, topic: str) -> None:
    nsqd = await start(SOON_TIMED_OUT)
    await nsqd.publish(topic, *[b"x"] * 250)
    consumer = await nsqd.consumer(topic, ready=2500)
    begun = time.monotonic()
    first = await consumer.messages(250)
    await not_ready(nsqd, topic, consumer)
    timed_out = await all_timed_out(nsqd, topic, 250)
    assert not OURS or time.monotonic() - begun < 25
    came = Counter(message.id for message in first + await consumer.messages(timed_out - 250))
    assert len(came) == 250
    await consumer.ready(2500)
    again = await consumer.messages(250)
    assert {message.id: message.attempts - 1 for message in again} == came


@pytest.mark.parametrize("rate", [42, 1])
async def test_sampling_delivers_about_so_many_percent(nsqd: Server, topic: str, rate: int) -> None:
    consumer = await nsqd.client()
    await consumer.identify(sample_rate=rate)
    await consumer.subscribe(topic, ready=2500)
    await nsqd.publish(topic, *[b"x"] * 5000)
    await nsqd.until_channel(topic, depth=0, message_count=5000)
    share = (await nsqd.channel(topic))["in_flight_count"] / 50
    assert rate - 5 < share < rate + 5


# --- several consumers


async def test_what_a_departed_consumer_held_goes_to_another(start: Start, topic: str) -> None:
    nsqd = await start(SOON_TIMED_OUT)
    await nsqd.publish(topic, b"x")
    first, second = await nsqd.consumer(topic, ready=1), None
    message = await first.message()
    second = await nsqd.consumer(topic, ready=1)
    first.connection.reset()
    await nsqd.until_channel(topic, client_count=1, in_flight_count=1)
    again = await second.message()
    channel = await nsqd.channel(topic)
    assert again.id == message.id
    assert 2 <= again.attempts <= channel["timeout_count"] + 1
    assert channel["requeue_count"] == 0


async def test_no_more_consumers_than_allowed(start: Start, topic: str) -> None:
    nsqd = await start("--max-channel-consumers=1")
    await nsqd.consumer(topic)
    assert await (await nsqd.client()).error(b"SUB %s c\n" % topic.encode()) == (
        f"E_SUB_FAILED SUB failed consumers for {topic}:c exceeds limit of 1"
    )
    await nsqd.consumer(topic, "other")


async def test_consumers_of_the_same_zone_come_first(start: Start, topic: str) -> None:
    """Publishes are 20 ms apart, so that a consumer of the zone waits each time."""
    nsqd = await start(
        "--enable-experiment=topology-aware-consumption",
        "--topology-region=region",
        "--topology-zone=zone",
    )
    received: dict[str, list[bytes]] = {"zone": [], "zone2": []}

    async def consume(client: Client, zone: str) -> None:
        while True:
            received[zone].append((await client.message()).body)

    tasks = []
    for zone in ("zone", "zone", "zone2", "zone2"):
        consumer = await nsqd.client()
        await consumer.identify(topology_region="region", topology_zone=zone)
        await consumer.subscribe(topic, ready=10)
        tasks.append(asyncio.create_task(consume(consumer, zone)))
    producer = await nsqd.client()
    for number in range(21):
        await producer.publish(topic, b"%d" % number)
        await asyncio.sleep(0.02)

    async def all_came() -> bool:
        return sum(map(len, received.values())) == 21

    await until(all_came, lambda: f"21 messages, seen {received}")
    for task in tasks:
        task.cancel()
    assert len(received["zone"]) == 20
    assert len(received["zone2"]) == 1
    channel = await nsqd.channel(topic)
    assert (channel["zone_local_msg_count"], channel["region_local_msg_count"]) == (20, 1)


async def test_a_consumer_that_does_not_read_holds_up_nobody(start: Start, topic: str) -> None:
    """25 MB for two channels: one is read at once; the other's wait until its consumer reads."""
    nsqd = await start("--mem-queue-size=5")
    slow = await nsqd.consumer(topic, "slow", ready=2500)
    quick = await nsqd.consumer(topic, "quick", ready=2500)
    bodies = [bytes([number]) * 256 * 1024 for number in range(100)]
    publishing = asyncio.create_task(nsqd.publish(topic, *bodies))
    assert sorted(message.body[0] for message in await quick.messages(100)) == list(range(100))
    await publishing
    await nsqd.until_channel(topic, "slow", message_count=100)
    held = await nsqd.channel(topic, "slow")
    assert held["in_flight_count"] + held["depth"] == 100
    assert held["in_flight_count"] < 60  # what the sockets and one buffer hold
    assert sorted(message.body[0] for message in await slow.messages(100)) == list(range(100))


# --- pause, empty, delete


async def test_emptying_a_channel_frees_its_consumer(nsqd: Server, topic: str) -> None:
    consumer = await nsqd.consumer(topic, ready=25)
    await nsqd.publish(topic, *[b"x"] * 30)
    old = await consumer.messages(25)
    await nsqd.until_channel(topic, in_flight_count=25, depth=5)
    await nsqd.call("POST", f"/channel/empty?topic={topic}&channel=c")
    channel = await nsqd.channel(topic)
    assert (channel["in_flight_count"], channel["depth"]) == (0, 0)
    assert channel["clients"][0]["in_flight_count"] == 0
    assert "ID not in flight" in await consumer.error(b"FIN %s\n" % old[0].id)
    await nsqd.publish(topic, *[b"new"] * 25)
    assert {message.body for message in await consumer.messages(25)} == {b"new"}


async def test_a_paused_channel_still_times_out(start: Start, topic: str) -> None:
    nsqd = await start(SOON_TIMED_OUT)
    await nsqd.publish(topic, b"x")
    consumer = await nsqd.consumer(topic, ready=1)
    await consumer.message()
    await nsqd.call("POST", f"/channel/pause?topic={topic}&channel=c")
    timed_out = await all_timed_out(nsqd, topic, 1)
    assert (await nsqd.channel(topic))["paused"]
    await consumer.messages(timed_out - 1)
    assert await consumer.silent(0.05)
    await nsqd.call("POST", f"/channel/unpause?topic={topic}&channel=c")
    assert (await consumer.message()).attempts == timed_out + 1


async def test_deferred_messages_are_counted_and_emptied(nsqd: Server, topic: str) -> None:
    consumer = await nsqd.consumer(topic, ready=5)
    assert await (await nsqd.client()).ask(dpub(topic, 60_000, b"later")) == b"OK"
    await nsqd.until_channel(topic, deferred_count=1, message_count=1, depth=0)
    await nsqd.call("POST", f"/channel/empty?topic={topic}&channel=c")
    await nsqd.until_channel(topic, deferred_count=0, depth=0)
    assert await consumer.silent(0.05)


async def test_a_backlog_of_deferred_messages_comes_in_its_order(nsqd: Server, topic: str) -> None:
    producer = await nsqd.client()
    bodies = [b"%d" % number for number in range(5)]
    for body in bodies:
        assert await producer.ask(dpub(topic, 200, body)) == b"OK"
    consumer = await nsqd.consumer(topic, ready=5)
    assert [message.body for message in await consumer.messages(5)] == bodies


async def test_an_ephemeral_channel_keeps_what_memory_holds(start: Start, topic: str) -> None:
    nsqd = await start("--mem-queue-size=5")
    consumer = await nsqd.consumer(topic, "c#ephemeral")
    await nsqd.publish(topic, *[b"%d" % number for number in range(40)])
    await nsqd.until_channel(topic, "c#ephemeral", message_count=40)
    channel = await nsqd.channel(topic, "c#ephemeral")
    assert channel["depth"] == 5
    assert channel["backend_depth"] == 0
    await consumer.ready(40)
    assert len(await consumer.messages(5)) == 5
    assert await consumer.silent(0.05)


async def test_ephemeral_channel_and_topic_leave_with_their_consumer(nsqd: Server) -> None:
    name = "leaving#ephemeral"
    consumer = await nsqd.consumer(name, "c#ephemeral")
    assert await nsqd.channel(name, "c#ephemeral")
    consumer.connection.close()

    async def gone() -> bool:
        return not await nsqd.topic(name)

    await until(gone, lambda: "the end of the topic")


# --- output buffering


async def test_a_large_message_waits_in_a_large_buffer(start: Start, topic: str) -> None:
    nsqd = await start(*ROOMY)
    begun = time.monotonic()
    consumer = await nsqd.client()
    answer = await consumer.identify(output_buffer_size=256 * 1024, output_buffer_timeout=500)
    assert (answer["output_buffer_size"], answer["output_buffer_timeout"]) == (262_144, 500)
    await nsqd.publish(topic, bytes(256 * 1024 - 1024))
    await consumer.subscribe(topic, ready=10)
    await consumer.message()
    assert time.monotonic() - begun >= 0.45


async def test_buffer_sizes_may_be_negotiated_again(start: Start) -> None:
    nsqd = await start(*ROOMY)
    client = await nsqd.client()
    for asked, told in (((512 * 1024, 1000), (512 * 1024, 1000)), ((-1, -1), (1, 0))):
        answer = await client.identify(output_buffer_size=asked[0], output_buffer_timeout=asked[1])
        assert (answer["output_buffer_size"], answer["output_buffer_timeout"]) == told
    answer = await client.identify(output_buffer_size=0, output_buffer_timeout=0)
    assert answer["output_buffer_size"] > 0
    text = await client.error(identify(output_buffer_size=512 * 1024 + 1))
    assert text == "E_BAD_BODY IDENTIFY output buffer size (524289) is invalid"
    text = await (await nsqd.client()).error(identify(output_buffer_timeout=1001))
    assert text == "E_BAD_BODY IDENTIFY output buffer timeout (1001) is invalid"


@pytest.mark.skipif(not OURS, reason="Go's nsqd panics at the first connection")
async def test_without_a_buffer_timeout_there_is_no_timer(start: Start, topic: str) -> None:
    nsqd = await start("--output-buffer-timeout=0")
    consumer = await nsqd.consumer(topic, ready=2)
    await nsqd.publish(topic, b"x")
    await nsqd.until_channel(topic, in_flight_count=1)
    assert await consumer.silent(0.1)
    await consumer.ready(1)  # no longer ready: what waits is sent
    assert (await consumer.message()).body == b"x"


@pytest.mark.parametrize(("interval", "fine"), [(300_000, True), (300_001, False)])
async def test_the_longest_heartbeat_interval(start: Start, interval: int, fine: bool) -> None:
    nsqd = await start(*ROOMY)
    client = await nsqd.client()
    if fine:
        await client.identify(heartbeat_interval=interval)
    else:
        text = await client.error(identify(heartbeat_interval=interval))
        assert text == f"E_BAD_BODY IDENTIFY heartbeat interval ({interval}) is invalid"
