from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from penstock.broker.broker import Broker
from penstock.broker.publish.batching import Outcome
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND
from penstock.node import housekeeping
from penstock.node.commits import FEW
from penstock.node.sync_place import SyncPlace
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.durability import Durability
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
