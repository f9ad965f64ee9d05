"""A connection's life, over real sockets (NSQ spec 1.1 to 1.9)."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop

from penstock.core.units import MILLISECOND, SECOND
from penstock.node.commits import AT_ONCE
from penstock.nsq.nsqd.tcp import session
from penstock.nsq.nsqd.tcp.session import TOPOLOGY_EXPERIMENT
from penstock.storage.durability import Durability
from penstock.testing.clock import FakeClock
from tests import nsqds
from tests.programs.nsq.nsqd.conftest import (
    BEAT_MS,
    Running,
    Start,
    beat_quickly,
    dpub,
    identify,
    mpub,
    options,
    pub,
    served,
    slow_disk,
)

HEARTBEAT = (0, b"_heartbeat_")


def stand_still(clock: FakeClock, ms: int) -> None:
    """Block the event loop until the clock has advanced."""
    time.sleep(ms / 1000)
    clock.advance(ms * MILLISECOND)


# --- order of answers -----------------------------------------------------------------------------


async def test_pipelined_answers_come_in_the_order_of_the_commands(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(
        pub("t", b"1") + mpub("u", b"2", b"3")
        + dpub("t", 0, b"4") + b"NOP\n" + b"SUB t c\n" + pub("t", b"5") + b"CLS\n"
    )  # fmt: skip
    answers = [await client.frame() for _ in range(6)]
    assert answers == [(0, b"OK")] * 5 + [(0, b"CLOSE_WAIT")]


async def test_an_ok_does_not_overtake_the_refusal_of_another_topic(nsqd: Running) -> None:
    await nsqd.publish("full", b"x")
    await nsqd.post("/topic/config?topic=full", b'{"max_depth": 1}')
    client = await nsqd.connect()
    before = AT_ONCE + 8  # so that the last ones share a commit
    client.send(pub("t", b"x") * before + pub("full", b"x") + pub("t", b"x"))
    assert [await client.frame() for _ in range(before)] == [(0, b"OK")] * before
    assert "full" in await client.error()
    assert await client.closed()


async def test_a_command_that_waited_for_a_publish_which_failed_is_not_carried_out(
    nsqd: Running,
) -> None:
    await nsqd.publish("full", b"x")
    await nsqd.post("/topic/config?topic=full", b'{"max_depth": 1}')
    client = await nsqd.connect()
    before = AT_ONCE + 8
    client.send(pub("t", b"x") * before + pub("full", b"x") + b"SUB u c\n")
    assert [await client.frame() for _ in range(before)] == [(0, b"OK")] * before
    assert "full" in await client.error()
    assert await client.closed()
    assert "u" not in nsqd.nsqd.node.broker.topics


async def test_an_ok_does_not_overtake_the_sync_of_another_topic(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, gate = slow_disk(monkeypatch, within="/slow@")
    nsqd = await start(data_path="/data", durability=Durability.FSYNC)
    await nsqd.publish("quick", b"x")
    gate.clear()
    client = await nsqd.connect()
    client.send(pub("slow", b"1") + pub("quick", b"2") + pub("quick", b"3"))
    log = nsqd.nsqd.node.broker.topics["quick"].log
    await nsqd.until(lambda: log.next_offset == 3 and log.unsynced_messages == 0)
    assert await client.silent(0.05)
    gate.set()
    assert [await client.frame() for _ in range(3)] == [(0, b"OK")] * 3


async def test_a_failed_fin_does_not_overtake_an_owed_ok(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(b"SUB t c\n" + pub("t", b"x") + b"FIN 0123456789abcdef\n" + pub("t", b"y"))
    assert [await client.frame() for _ in range(4)] == [
        (0, b"OK"),
        (0, b"OK"),
        (1, b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight"),
        (0, b"OK"),
    ]


async def test_an_ok_goes_before_the_messages_that_one_publishes_to_itself(nsqd: Running) -> None:
    client = await nsqd.connect()
    await client.subscribe("t", ready=100)
    for count in (1, 1, 1, 2, 1, 50):
        client.send(b"".join(pub("t", b"%d" % number) for number in range(count)))
        kinds = [(await client.frame())[0] for _ in range(2 * count)]
        assert sorted(kinds) == [0] * count + [2] * count
        for place in range(1, 2 * count + 1):
            assert kinds[:place].count(2) <= kinds[:place].count(0), "a message before its OK"


async def test_lone_publishes_are_like_others(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", ready=100)
    client = await nsqd.connect()
    commands = [pub("t", b"a"), mpub("t", b"b"), dpub("t", 0, b"c"), mpub("t", b"d", b"e")]
    for command in commands * 3:
        assert await client.ask(command) == b"OK"
    bodies = [message.body for message in await consumer.messages(15)]
    assert bodies == [b"a", b"b", b"c", b"d", b"e"] * 3
    (own,) = (each for each in nsqd.nsqd.sessions if each.connection.pub_counts)
    assert own.connection.pub_counts == {"t": 15}
    assert (await nsqd.topic("t"))["message_count"] == 15
    # A deleted topic is made again, and a full one refuses.
    assert (await nsqd.post("/topic/delete?topic=t"))[0] == 200
    assert await client.ask(pub("t", b"x")) == b"OK"
    assert (await nsqd.topic("t"))["message_count"] == 1
    await nsqd.post("/topic/config?topic=t", b'{"max_depth": 1}')
    assert "full" in await client.error(pub("t", b"x"))


async def test_publishes_to_topics_that_are_gone_are_not_counted_for_ever(
    nsqd: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PUB_COUNTS_MIN", 3)
    client = await nsqd.connect()
    registry = nsqd.nsqd.node.registry
    for name in ("stays", "a", "b", "c", "d", "e"):
        assert await client.ask(pub(name, b"x")) == b"OK"
        if name != "stays":
            await registry.delete_topic(registry.topics[name])
    (own,) = nsqd.nsqd.sessions
    assert own.connection.pub_counts == {"stays": 1, "e": 1}
    registry.topic("a")
    assert await client.ask(pub("a", b"x")) == b"OK"  # its line is still known
    assert own.connection.pub_counts["a"] == 1


async def test_an_error_waits_for_the_answers_before_it(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(pub("t", b"x") + b"NONSENSE\n" + pub("t", b"never"))
    assert await client.frame() == (0, b"OK")
    assert await client.error() == "E_INVALID invalid command NONSENSE"
    assert await client.closed()
    assert (await nsqd.topic("t"))["message_count"] == 1


async def test_a_fatal_error_arrives_although_much_input_is_unread(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(b"NONSENSE\n" + bytes(1 << 20))
    assert await client.error() == "E_INVALID invalid command NONSENSE"
    assert await client.closed()


async def test_a_client_that_half_closes_gets_what_is_owed(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(pub("t", b"x") + mpub("t", b"y", b"z"))
    client.writer.write_eof()
    assert await client.frame() == (0, b"OK")
    assert await client.frame() == (0, b"OK")
    assert await client.closed()


async def test_the_end_of_input_inside_a_body_is_told_after_the_owed_ok(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(pub("t", b"x") + pub("t", b"cut short")[:-3])
    client.writer.write_eof()
    assert await client.frame() == (0, b"OK")
    assert await client.error() == "E_BAD_MESSAGE PUB failed to read message body"
    assert await client.closed()


async def test_the_end_of_input_behind_a_held_command(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(pub("t", b"x") + b"SUB t c\n" + pub("t", b"y"))
    client.writer.write_eof()
    assert [await client.frame() for _ in range(3)] == [(0, b"OK")] * 3
    assert await client.closed()


# --- magic and heartbeats -------------------------------------------------------------------------


async def test_without_a_magic_there_are_no_heartbeats_and_soon_an_end(start: Start) -> None:
    nsqd = await start(magic_timeout=100 * MILLISECOND)
    client = await nsqd.connect(b" ")
    assert await client.closed()


async def test_heartbeats_come_and_silence_is_the_end(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock)
    client = await nsqd.connect()
    assert await client.ask(pub("t", b"x")) == b"OK"
    beat_quickly(await served(nsqd, client))
    beats = 0
    with contextlib.suppress(asyncio.IncompleteReadError):
        while beats < 20:
            assert await client.frame() == HEARTBEAT
            clock.advance(BEAT_MS * MILLISECOND)
            beats += 1
    assert 2 <= beats < 20  # more than 2 only where the machine is so busy that they are late


async def test_any_command_keeps_the_connection(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock)
    client = await nsqd.connect()
    assert await client.ask(pub("t", b"x")) == b"OK"
    own = await served(nsqd, client)
    beat_quickly(own)
    for _ in range(6):
        assert await client.frame() == HEARTBEAT
        clock.advance(BEAT_MS * MILLISECOND)
        client.send(b"NOP\n")
        await nsqd.until(lambda: own.heard_ns == clock.monotonic_ns())
    assert await client.frame() == HEARTBEAT


@pytest.mark.parametrize("loops", [asyncio, uvloop])
def test_nsqd_held_up_itself_does_not_take_it_for_silence(loops: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        nsqd = Running(await nsqds.start(options(tmp_path), clock))
        client = await nsqd.connect()
        assert await client.ask(pub("t", b"x")) == b"OK"
        beat_quickly(await served(nsqd, client))
        for _ in range(2):
            stand_still(clock, 3 * BEAT_MS)
            assert await client.frame() == HEARTBEAT
            client.send(b"NOP\n")
        assert await client.frame() == HEARTBEAT
        await nsqd.stop()

    with asyncio.Runner(loop_factory=loops.new_event_loop) as runner:
        runner.run(scenario())


async def test_a_body_that_trickles_is_cut_off_with_an_error(nsqd: Running) -> None:
    client = await nsqd.connect()
    assert await client.ask(pub("t", b"x")) == b"OK"
    beat_quickly(await served(nsqd, client))
    client.send(b"PUB t\n" + struct.pack(">i", 1000))

    async def trickle() -> None:
        while True:
            client.send(b"x")
            await asyncio.sleep(0.02)

    task = asyncio.create_task(trickle())
    try:
        frame = await client.frame()
        while frame == HEARTBEAT:
            frame = await client.frame()
    finally:
        task.cancel()
    assert frame == (1, b"E_BAD_MESSAGE PUB failed to read message body")


async def test_without_heartbeats_no_subscription(nsqd: Running) -> None:
    client = await nsqd.connect()
    assert await client.ask(identify(heartbeat_interval=-1)) == b"OK"
    assert (await served(nsqd, client))._beat is None
    assert await client.error(b"SUB t c\n") == "E_INVALID cannot SUB with heartbeats disabled"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (identify(heartbeat_interval=1), "E_BAD_BODY IDENTIFY heartbeat interval (1) is invalid"),
        (b"AUTH\n\0\0\0\1x", "E_AUTH_DISABLED AUTH disabled"),
    ],
    ids=["identify", "auth"],
)
async def test_a_refusal_is_fatal(nsqd: Running, command: bytes, text: str) -> None:
    client = await nsqd.connect()
    assert await client.error(command) == text
    assert await client.closed()


async def test_a_line_too_long_is_dropped_without_a_word(nsqd: Running) -> None:
    client = await nsqd.connect()
    client.send(b"x" * 20_000)
    assert await client.closed()


# --- consuming ------------------------------------------------------------------------------------


async def test_finish_requeue_and_touch(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock, msg_timeout=SECOND)
    await nsqd.publish("t", b"x")
    consumer = await nsqd.consumer("t")
    first = await consumer.message()
    assert first.attempts == 1
    consumer.send(b"REQ %s 0\n" % first.id)
    second = await consumer.message()
    assert second == first._replace(attempts=2)
    for _ in range(3):
        clock.advance(400 * MILLISECOND)
        touched = b"TOUCH %s\nFIN ffffffffffffffff\n" % second.id
        assert (await consumer.error(touched)).startswith("E_FIN_FAILED")
    assert await consumer.silent(0.05)
    consumer.send(b"FIN %s\nNOP\nFIN %s\n" % (first.id, first.id))
    text = f"E_FIN_FAILED FIN {first.id.decode()} failed ID not in flight"
    assert await consumer.error() == text
    stats = await nsqd.channel("t")
    assert (stats["requeue_count"], stats["timeout_count"], stats["in_flight_count"]) == (1, 0, 0)


@pytest.mark.parametrize("command", ["FIN", "TOUCH", "REQ"])
async def test_somebody_elses_message(nsqd: Running, command: str) -> None:
    await nsqd.publish("t", b"x")
    owner = await nsqd.consumer("t")
    message = await owner.message()
    other = await nsqd.consumer("t", ready=0)
    delay = b" 0" if command == "REQ" else b""
    text = f"E_{command}_FAILED {command} {message.id.decode()} failed client does not own message"
    assert await other.error(b"%s %s%s\n" % (command.encode(), message.id, delay)) == text


async def test_ids_that_are_none_of_ours(nsqd: Running) -> None:
    client = await nsqd.consumer("t")
    for message_id in (b"zzzzzzzzzzzzzzzz", b"ABCDEF0123456789", b"ffffffffffffffff"):
        shown = message_id.decode()
        text = f"E_FIN_FAILED FIN {shown} failed ID not in flight"
        assert await client.error(b"FIN %s\n" % message_id) == text
        text = f"E_TOUCH_FAILED TOUCH {shown} failed ID not in flight"
        assert await client.error(b"TOUCH %s\n" % message_id) == text


async def test_ready_is_a_level(nsqd: Running) -> None:
    await nsqd.publish("t", b"1", b"2", b"3")
    consumer = await nsqd.consumer("t", ready=2)
    first, _ = await consumer.messages(2)
    assert await consumer.silent(0.05)
    consumer.send(b"FIN %s\n" % first.id)
    assert (await consumer.message()).body == b"3"


async def test_cls_ends_delivery_but_not_the_messages_in_flight(nsqd: Running) -> None:
    await nsqd.publish("t", b"1", b"2")
    consumer = await nsqd.consumer("t")
    message = await consumer.message()
    assert await consumer.ask(b"CLS\n") == b"CLOSE_WAIT"
    consumer.send(b"RDY 5\nFIN %s\n" % message.id)
    assert await consumer.silent(0.05)
    stats = await nsqd.channel("t")
    assert (stats["in_flight_count"], stats["depth"]) == (0, 1)
    assert await consumer.error(b"CLS\n") == "E_INVALID cannot CLS in current state"


async def test_messages_wait_for_the_buffer_and_a_response_takes_them_along(nsqd: Running) -> None:
    client = await nsqd.connect()
    assert await client.ask(identify(output_buffer_timeout=-1)) == b"OK"
    await client.subscribe("t", ready=10)
    await nsqd.publish("t", b"x")
    assert await client.silent(0.1)
    client.send(b"FIN 0123456789abcdef\n")
    assert (await client.message()).body == b"x"


async def test_too_many_consumers(start: Start) -> None:
    nsqd = await start(max_channel_consumers=1)
    await nsqd.consumer("t")
    late = await nsqd.connect()
    text = "E_SUB_FAILED SUB failed consumers for t:c exceeds limit of 1"
    assert await late.error(b"SUB t c\n") == text


# --- after the end --------------------------------------------------------------------------------


async def test_a_failed_consumer_gets_nothing_while_its_error_lingers(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", ready=10)
    assert "E_INVALID" in await consumer.error(b"NONSENSE\n")
    producer = await nsqd.connect()
    for _ in range(3):
        assert await producer.ask(pub("t", b"x")) == b"OK"
    stats = await nsqd.channel("t")
    assert (stats["in_flight_count"], stats["depth"], stats["clients"]) == (0, 3, [])


async def test_a_deleted_channel_ends_its_consumers(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", "c")
    other = await nsqd.consumer("t", "d")
    assert (await nsqd.post("/channel/delete?topic=t&channel=c"))[0] == 200
    assert await consumer.closed()
    await nsqd.publish("t", b"x")
    assert (await other.message()).body == b"x"


async def test_ephemeral_channel_and_topic_go_with_the_last_consumer(nsqd: Running) -> None:
    consumers = [await nsqd.consumer("t#ephemeral", "c#ephemeral") for _ in range(2)]
    consumers[0].writer.close()
    await nsqd.until(lambda: len(nsqd.nsqd.sessions) == 1)
    assert "t#ephemeral" in nsqd.nsqd.node.broker.topics
    consumers[1].writer.close()
    await nsqd.until(lambda: "t#ephemeral" not in nsqd.nsqd.node.broker.topics)


async def test_same_zone_first(start: Start) -> None:
    """NSQ spec 8.1, SameZoneConsumerV2; here also when all is published at once."""
    nsqd = await start(topology_zone="zone", topology_region="region",
                       enable_experiment=(TOPOLOGY_EXPERIMENT,))  # fmt: skip
    clients = []
    for zone in ("zone2", "zone", "zone2", "zone"):
        client = await nsqd.connect()
        await client.ask(identify(topology_zone=zone, topology_region="region",
                                  feature_negotiation=True))  # fmt: skip
        await client.subscribe("t", ready=10)
        clients.append(client)

    async def ready() -> bool:
        found = await nsqd.channel("t")
        return [each["ready_count"] for each in found["clients"]] == [10] * 4

    await nsqd.until(ready)
    await nsqd.publish("t", *[b"m%d" % number for number in range(21)])
    channel = await nsqd.channel("t")
    assert channel["zone_local_msg_count"] == 20
    assert channel["region_local_msg_count"] == 1
    assert "global_msg_count" not in channel
    assert channel["in_flight_count"] == 21
    for client in (clients[1], clients[3]):
        await client.messages(10)


async def test_without_the_experiment_all_are_alike(start: Start) -> None:
    nsqd = await start(topology_zone="zone")
    client = await nsqd.connect()
    await client.ask(identify(topology_zone="zone", feature_negotiation=True))
    await client.subscribe("t", ready=5)
    producer = await nsqd.connect()
    await producer.ask(pub("t", b"m"))
    await client.message()
    channel = await nsqd.channel("t")
    assert channel["global_msg_count"] == 1
    assert "zone_local_msg_count" not in channel
