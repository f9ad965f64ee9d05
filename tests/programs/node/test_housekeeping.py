"""What a node does by the clock: syncs, trims, dead letters, groups that nobody moves."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from pathlib import Path

import pytest

from penstock.broker.broker import Broker
from penstock.broker.publish.batching import Outcome
from penstock.core.errors import StorageError
from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from penstock.node import group_retention, housekeeping
from penstock.node.commits import FEW
from penstock.node.group_retention import KEEP_NS
from penstock.node.sync_place import SyncPlace
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.durability import Durability
from penstock.storage.recovery.damage import Damage
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import Running, Start


async def test_logs_are_synced_by_the_clock(start: Start) -> None:
    nsqd = await start(sync_timeout=30 * MILLISECOND)
    await nsqd.publish("t", b"x")
    log = nsqd.nsqd.node.broker.topics["t"].log
    await nsqd.until(lambda: log.unsynced_messages == 0)


async def test_who_is_told_of_a_sync_by_the_clock_may_make_a_topic(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SyncPlace, "run", lambda self, work, done, may_wait: done(work()))
    nsqd = await start(durability=Durability.FSYNC)
    node = nsqd.nsqd.node
    node.housekeeping.stop()
    topic = node.registry.topic("t")
    told: list[StorageError | None] = []

    def publish(done: Outcome) -> None:
        node.commits.publish(topic, Bodies.single(b"x"), 0, done)

    for _ in range(FEW + 1):
        publish(told.append)
    node.commits.commit()
    assert told == [None] * (FEW + 1)
    publish(lambda error: told.append(node.registry.topic("u").log.failure))
    node.commits.commit()
    assert len(told) == FEW + 1  # it waits for others to share the next sync
    node.housekeeping._trim_and_sync(0)
    assert told[-1] is None
    assert list(node.broker.topics) == ["t", "u"]


async def test_consumed_segments_go(start: Start) -> None:
    nsqd = await start(sync_timeout=30 * MILLISECOND, max_bytes_per_file=1000)
    consumer = await nsqd.consumer("t", ready=100)
    await nsqd.publish("t", *[bytes(500)] * 20)
    for message in await consumer.messages(20):
        consumer.send(b"FIN %s\n" % message.id)
    log = nsqd.nsqd.node.broker.topics["t"].log
    await nsqd.until(lambda: log.nbytes < 2000)


async def test_progress_is_written_down_soon(start: Start, tmp_path: Path) -> None:
    nsqd = await start()
    consumer = await nsqd.consumer("t", ready=2)
    await nsqd.publish("t", b"1", b"2", b"3")
    for message in await consumer.messages(2):
        consumer.send(b"FIN %s\n" % message.id)
    await consumer.message()
    topic = nsqd.nsqd.node.broker.topics["t"]
    await nsqd.until(lambda: topic.channels["c"].state.in_flight_count == 1 and not topic.changed)
    shutil.copytree(tmp_path / "topics", tmp_path / "killed" / "topics")
    again = await start(data_path=tmp_path / "killed")
    channel = await again.channel("t")
    assert (channel["depth"], channel["in_flight_count"]) == (1, 0)


@pytest.mark.parametrize(
    ("took_ms", "pause_ms"), [(0, 100), (5, 100), (30, 300), (50, 500), (4000, 500)]
)
async def test_how_long_progress_may_wait(
    nsqd: Running, monkeypatch: pytest.MonkeyPatch, took_ms: int, pause_ms: int
) -> None:
    clock = FakeClock()
    saved: list[int] = []

    def save(broker: Broker) -> None:
        clock.advance(took_ms * MILLISECOND)
        saved.append(clock.monotonic_ns())

    clockwork = nsqd.nsqd.node.housekeeping
    clockwork.stop()
    monkeypatch.setattr(clockwork, "_clock", clock)
    monkeypatch.setattr(Broker, "save", save)
    clockwork._save_at = clockwork._sync_at = 0
    while len(saved) < 2:
        clockwork._tick(clock.monotonic_ns())
        clock.advance(MILLISECOND)
    assert saved[1] - saved[0] == (pause_ms + took_ms) * MILLISECOND


async def test_deadlines_are_kept_closely(start: Start) -> None:
    nsqd = await start(msg_timeout=100 * MILLISECOND)
    consumer = await nsqd.consumer("t")
    loop = asyncio.get_running_loop()
    held_up = 0.0

    async def watch() -> None:
        """Add up what the loop itself is late, on a busy machine."""
        nonlocal held_up
        while True:
            due = loop.time() + 0.01
            await asyncio.sleep(0.01)
            held_up += loop.time() - due

    watching = asyncio.create_task(watch())
    begun = loop.time()
    await nsqd.publish("t", b"x")
    await consumer.message()
    await consumer.message()
    took = loop.time() - begun
    await asyncio.sleep(0.01)  # so that the last delay is counted
    watching.cancel()
    assert 0.09 <= took < 3 + held_up


async def test_an_error_does_not_stop_the_clockwork(
    nsqd: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tick = Broker.tick
    left = [None] * 3

    def failing(broker: Broker, now: int) -> object:
        if left:
            left.pop()
            raise RuntimeError("out of order")
        return tick(broker, now)

    monkeypatch.setattr(Broker, "tick", failing)
    await nsqd.until(lambda: not left)
    assert "out of order" in caplog.text
    monkeypatch.setattr(housekeeping, "TICK_S", 0.001)
    consumer = await nsqd.consumer("t")
    assert (await nsqd.post("/pub?topic=t&defer=50", b"x"))[0] == 200
    assert (await consumer.message()).body == b"x"


async def give_up(nsqd: Running, topic: str = "t", most: int = 2) -> int:
    """Requeue a message until it comes no more; its time stamp."""
    consumer = await nsqd.consumer(topic)
    await nsqd.publish(topic, b"poison")
    for attempt in range(1, most + 1):
        message = await consumer.message()
        assert (message.attempts, message.body) == (attempt, b"poison")
        consumer.send(b"REQ %b 0\n" % message.id)
    consumer.writer.close()
    return message.timestamp


@pytest.mark.parametrize("durability", list(Durability))
async def test_from_the_last_attempt_to_the_dead_letter_topic(
    start: Start, durability: Durability
) -> None:
    nsqd = await start(max_attempts=2, durability=durability)
    timestamp = await give_up(nsqd)

    async def moved() -> bool:
        return (await nsqd.channel("t")).get("dead_letter_count") == 1

    await nsqd.until(moved)
    assert (await nsqd.channel("t"))["depth"] == 0
    dead = await (await nsqd.consumer("t.dead")).message()
    assert (dead.attempts, dead.body, dead.timestamp) == (1, b"poison", timestamp)
    found = await nsqd.json("/deadletters?topic=t.dead")
    (letter,) = found["messages"]
    assert letter["origin"].pop("dead_since") > timestamp
    base = nsqd.nsqd.node.broker.topics["t"].log.id_base
    origin = {"topic": "t", "channel": "c", "id": f"{base:016x}", "attempts": 2}
    assert (letter["body"], letter["origin"]) == ("poison", origin)


async def test_one_channel_alone(nsqd: Running) -> None:
    await nsqd.post("/topic/create?topic=t")
    await nsqd.post("/channel/create?topic=t&channel=c")
    body = json.dumps({"max_attempts": 1, "dead_letter_topic": "grave"}).encode()
    assert (await nsqd.post("/channel/config?topic=t&channel=c", body))[0] == 200
    await give_up(nsqd, most=1)
    await nsqd.until(lambda: "grave" in nsqd.nsqd.node.broker.topics)
    assert (await (await nsqd.consumer("grave")).message()).body == b"poison"


async def test_dead_letters_survive_kill_with_their_origin(start: Start, tmp_path: Path) -> None:
    nsqd = await start(max_attempts=1)
    await give_up(nsqd, most=1)
    await nsqd.until(lambda: "t.dead" in nsqd.nsqd.node.broker.topics)
    await nsqd.stop()
    again = await start()
    (letter,) = (await again.json("/deadletters?topic=t.dead"))["messages"]
    assert letter["origin"]["channel"] == "c"
    assert "dead_letter_count" not in await again.channel("t")


async def test_a_dead_letter_topic_that_takes_nothing(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsqd = await start(max_attempts=1)
    make = nsqd.nsqd.node.registry.topic

    def refuse(name: str) -> object:
        if name == "t.dead":
            raise StorageError("no room")
        return make(name)

    monkeypatch.setattr(nsqd.nsqd.node.registry, "topic", refuse)
    await give_up(nsqd, most=1)
    await nsqd.until(lambda: "failed to move 1 message to t.dead" in caplog.text)
    assert (await nsqd.channel("t"))["depth"] == 1
    monkeypatch.undo()
    await nsqd.until(lambda: nsqd.nsqd.node.broker.topics["t"].channels["c"].dead_letter_count == 1)


async def test_circles_end(nsqd: Running) -> None:
    for topic, dead in (("a", "b"), ("b", "a")):
        await nsqd.post(f"/topic/create?topic={topic}")
        await nsqd.post(f"/channel/create?topic={topic}&channel=c")
        body = json.dumps({"max_attempts": 1, "dead_letter_topic": dead}).encode()
        assert (await nsqd.post(f"/channel/config?topic={topic}&channel=c", body))[0] == 200
    await give_up(nsqd, topic="a", most=1)
    consumer = await nsqd.consumer("b")
    for attempt in (1, 2, 3):
        message = await consumer.message()
        assert message.attempts == attempt
        consumer.send(b"REQ %b 0\n" % message.id)
    assert (await nsqd.topic("a"))["message_count"] == 1


# --- Groups that nobody moves: when they are deleted, and when not -------------------------------


DAY = 24 * HOUR


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def reading(
    start: Start, clock: FakeClock, retention: int = DAY, **options: object
) -> Running:
    """An nsqd with groups of topic t: behind and ahead, at 1 and 3 of 3 messages."""
    nsqd = await start(clock=clock, group_retention=retention, **options)
    await nsqd.publish("t", b"a", b"b", b"c")
    await commit(nsqd, "behind", 1)
    await commit(nsqd, "ahead", 3)
    return nsqd


async def commit(nsqd: Running, group: str, offset: int) -> None:
    body = b'{"offsets":{"0":%d}}' % offset
    assert (await nsqd.post(f"/log/commit?topic=t&group={group}", body))[0] == 200


def wait(nsqd: Running, clock: FakeClock, ns: int) -> None:
    """Let time pass, and nsqd look at its groups in small steps."""
    for _ in range(20):
        clock.advance(ns // 20)
        nsqd.nsqd.node.housekeeping.ticks[0](clock.monotonic_ns())


def groups(nsqd: Running) -> set[str]:
    return set(nsqd.nsqd.node.broker.topics["t"].groups)


async def test_a_group_that_leaves_messages_unread_is_deleted_with_a_line(
    start: Start, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    nsqd = await reading(start, clock)
    wait(nsqd, clock, DAY - SECOND)
    assert groups(nsqd) == {"behind", "ahead"}
    wait(nsqd, clock, 20 * SECOND)
    assert groups(nsqd) == {"ahead"}
    assert ("TOPIC(t): deleting group behind, which has not moved for 24h0m0s "
            "(--group-retention=24h0m0s): it held 2 messages, about ") in caplog.text  # fmt: skip
    assert ", from offset 1 on" in caplog.text
    assert "log_groups" in await nsqd.topic("t")


async def test_the_deletion_survives_a_kill(start: Start, clock: FakeClock, tmp_path: Path) -> None:
    nsqd = await reading(start, clock)
    wait(nsqd, clock, DAY + SECOND)
    shutil.copytree(tmp_path / "topics", tmp_path / "killed" / "topics")
    assert groups(await start(data_path=tmp_path / "killed")) == {"ahead"}


async def test_a_commit_keeps_a_group(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    for _ in range(4):
        wait(nsqd, clock, 20 * HOUR)
        await commit(nsqd, "behind", 1)
    assert groups(nsqd) == {"behind", "ahead"}


async def test_a_group_that_has_read_all_is_not_idle(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    wait(nsqd, clock, 5 * DAY)
    await nsqd.publish("t", b"d")
    wait(nsqd, clock, 20 * HOUR)
    assert groups(nsqd) == {"ahead"}
    wait(nsqd, clock, 5 * HOUR)
    assert groups(nsqd) == set()


async def test_without_the_option_no_group_is_deleted(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock, 0)
    wait(nsqd, clock, 1000 * DAY)
    assert groups(nsqd) == {"behind", "ahead"}


async def test_a_clock_set_ahead_deletes_no_group(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    clock.set_wall(clock.wall_ns() + 1000 * DAY)
    wait(nsqd, clock, HOUR)
    await nsqd.stop()
    clock.set_wall(clock.wall_ns() + 1000 * DAY)
    nsqd = await start(clock=clock, group_retention=DAY)
    wait(nsqd, clock, 22 * HOUR)
    assert groups(nsqd) == {"behind", "ahead"}


async def test_an_age_goes_on_after_a_restart(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    wait(nsqd, clock, 23 * HOUR)
    await nsqd.stop()
    clock.advance(1000 * DAY)  # the time for which it is down does not count
    nsqd = await start(clock=clock, group_retention=DAY)
    wait(nsqd, clock, 59 * MINUTE)
    assert groups(nsqd) == {"behind", "ahead"}
    wait(nsqd, clock, 2 * MINUTE)
    assert groups(nsqd) == {"ahead"}


async def test_an_age_goes_on_after_a_kill(start: Start, clock: FakeClock, tmp_path: Path) -> None:
    nsqd = await reading(start, clock)
    topic = nsqd.nsqd.node.broker.topics["t"]
    nsqd.nsqd.node.broker.save()
    assert not topic.changed
    wait(nsqd, clock, 20 * HOUR)  # in which nothing is written but ages
    nsqd.nsqd.node.broker.save()
    shutil.copytree(tmp_path / "topics", tmp_path / "killed" / "topics")
    again = await start(data_path=tmp_path / "killed", clock=clock)
    age_ns = again.nsqd.node.broker.topics["t"].group_ages.age_ns("behind")
    assert 20 * HOUR - KEEP_NS - HOUR <= age_ns <= 20 * HOUR


async def test_a_damaged_topic_keeps_its_groups(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    topic = nsqd.nsqd.node.broker.topics["t"]
    topic.damage.report(Damage("log", "damaged"))
    wait(nsqd, clock, 2 * DAY)
    assert groups(nsqd) == {"behind", "ahead"}
    topic.accept_damage()
    wait(nsqd, clock, MINUTE)
    assert groups(nsqd) == {"ahead"}


async def test_what_holds_the_log_for_rocketmq_stays(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    nsqd.nsqd.node.broker.topics["t"].commit_group("rocketmq:g", 1)
    wait(nsqd, clock, 2 * DAY)
    assert groups(nsqd) == {"ahead", "rocketmq:g"}


async def test_many_groups_are_deleted_a_few_at_a_time(
    start: Start, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_retention, "DELETIONS_MAX", 2)
    nsqd = await reading(start, clock)
    for number in range(4):
        await commit(nsqd, f"g{number}", 0)
    clock.advance(DAY)
    found = []
    for _ in range(3):
        clock.advance(SECOND)
        nsqd.nsqd.node.housekeeping.ticks[0](clock.monotonic_ns())
        found.append(len(groups(nsqd)))
    assert found == [4, 2, 1]


async def test_nsqd_looks_by_itself(start: Start, clock: FakeClock) -> None:
    nsqd = await reading(start, clock)
    clock.advance(DAY)
    await nsqd.until(lambda: groups(nsqd) == {"ahead"})
