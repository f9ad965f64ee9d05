"""nsqd as a whole: what a restart keeps, what it does not, and how it ends."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import PenstockError
from penstock.core.units import MILLISECOND
from penstock.node import opening
from penstock.storage.durability import Durability
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk
from tests import nsqds
from tests.programs.nsq.nsqd.conftest import Running, Start, dpub, mpub, options, pub


async def restarted(nsqd: Running, start: Start, **changes: Any) -> Running:
    await nsqd.stop()
    return await start(**changes)


@pytest.mark.parametrize("level", list(Durability))
async def test_a_clean_restart_keeps_every_message(start: Start, level: Durability) -> None:
    nsqd = await start(durability=level)
    producer = await nsqd.connect()
    assert await producer.ask(mpub("t", b"1", b"2")) == b"OK"
    assert await producer.ask(pub("t", b"3")) == b"OK"
    nsqd = await restarted(nsqd, start, durability=level)
    assert (await nsqd.topic("t"))["depth"] == 3
    consumer = await nsqd.consumer("t", ready=5)
    assert [message.body for message in await consumer.messages(3)] == [b"1", b"2", b"3"]


async def test_what_was_finished_stays_finished_what_was_not_counts_on(start: Start) -> None:
    nsqd = await start()
    await nsqd.publish("t", b"1", b"2", b"3", b"4")
    consumer = await nsqd.consumer("t", ready=3)
    first, second, third = await consumer.messages(3)
    consumer.send(b"RDY 2\nFIN %s\nREQ %s 0\n" % (second.id, third.id))
    await nsqd.until(
        lambda: nsqd.nsqd.node.broker.topics["t"].channels["c"].state.in_flight_count == 2
    )
    nsqd = await restarted(nsqd, start)
    channel = await nsqd.channel("t")
    assert (channel["depth"], channel["in_flight_count"], channel["message_count"]) == (3, 0, 0)
    consumer = await nsqd.consumer("t", ready=5)
    again = {message.body: message for message in await consumer.messages(3)}
    assert again[b"1"] == first._replace(attempts=2)
    assert again[b"3"].attempts in (2, 3)  # requeued, perhaps delivered again already
    assert set(again) == {b"1", b"3", b"4"}


async def test_deferrals_keep_their_deadlines(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock)
    await nsqd.consumer("t")
    producer = await nsqd.connect()
    assert await producer.ask(dpub("t", 600, b"later")) == b"OK"
    assert await producer.ask(dpub("t", 60_000, b"much later")) == b"OK"
    clock.advance(590 * MILLISECOND)
    nsqd = await restarted(nsqd, start, clock=clock)
    assert (await nsqd.channel("t"))["deferred_count"] == 2
    consumer = await nsqd.consumer("t", ready=1)
    assert await consumer.silent(0.05)
    clock.advance(10 * MILLISECOND)
    message = await consumer.message()
    assert (message.body, message.attempts) == (b"later", 1)
    assert (await nsqd.channel("t"))["deferred_count"] == 1


async def test_a_deferred_message_without_a_channel(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock)
    producer = await nsqd.connect()
    assert await producer.ask(dpub("t", 150, b"x")) == b"OK"
    nsqd = await restarted(nsqd, start, clock=clock)
    consumer = await nsqd.consumer("t")
    assert await consumer.silent(0.03)
    clock.advance(150 * MILLISECOND)
    assert (await consumer.message()).body == b"x"


async def test_pauses_and_channels_stay_the_ephemeral_goes(start: Start) -> None:
    nsqd = await start()
    for name in ("t", "u", "e%23ephemeral"):
        await nsqd.post(f"/topic/create?topic={name}")
    for name in ("c", "d", "e%23ephemeral"):
        await nsqd.post(f"/channel/create?topic=t&channel={name}")
    await nsqd.post("/topic/pause?topic=u")
    await nsqd.post("/channel/pause?topic=t&channel=d")
    nsqd = await restarted(nsqd, start)
    topics = nsqd.nsqd.node.broker.topics
    assert {name: topic.paused for name, topic in topics.items()} == {"t": False, "u": True}
    channels = topics["t"].channels
    assert {name: channel.paused for name, channel in channels.items()} == {"c": False, "d": True}


async def test_deleted_and_emptied_stays_so(start: Start) -> None:
    nsqd = await start()
    for name in ("gone", "kept"):
        await nsqd.publish(name, b"x")
        await nsqd.post(f"/channel/create?topic={name}&channel=c")
        await nsqd.post(f"/channel/create?topic={name}&channel=d")
    await nsqd.post("/topic/delete?topic=gone")
    await nsqd.post("/channel/delete?topic=kept&channel=d")
    await nsqd.post("/channel/empty?topic=kept&channel=c")
    nsqd = await restarted(nsqd, start)
    assert list(nsqd.nsqd.node.broker.topics) == ["kept"]
    topic = await nsqd.topic("kept")
    assert [channel["channel_name"] for channel in topic["channels"]] == ["c"]
    assert topic["channels"][0]["depth"] == 0


async def test_a_deleted_topic_leaves_no_files(start: Start, tmp_path: Path) -> None:
    nsqd = await start()
    await nsqd.publish("t", b"x")
    assert list((tmp_path / "topics").iterdir())
    await nsqd.post("/topic/delete?topic=t")
    assert list((tmp_path / "topics").iterdir()) == []


async def test_using_a_topic_while_it_is_deleted(start: Start) -> None:
    nsqd = await start(durability=Durability.FSYNC)
    await nsqd.publish("t", b"x")
    nsqd.nsqd.node.broker.topics["t"].exiting = True
    producer = await nsqd.connect()
    assert await producer.error(pub("t", b"y")) == "E_PUB_FAILED PUB failed exiting"
    consumer = await nsqd.connect()
    assert await consumer.error(b"SUB t c\n") == "E_SUB_FAILED SUB failed exiting"
    assert await consumer.closed()
    assert await nsqd.post("/pub?topic=t", b"y") == (503, b'{"message":"EXITING"}')


async def test_delete_and_publish_race(start: Start) -> None:
    """Every publish is answered, whatever happens to its topic meanwhile."""
    nsqd = await start(durability=Durability.FSYNC)

    async def publish() -> None:
        for _ in range(20):
            assert (await nsqd.post("/pub?topic=t", b"x"))[0] in (200, 503)

    async def delete() -> None:
        for _ in range(20):
            assert (await nsqd.post("/topic/delete?topic=t"))[0] in (200, 404)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for job in (publish(), publish(), delete(), delete()):
            group.create_task(job)


async def test_two_cannot_share_a_data_path(nsqd: Running, tmp_path: Path) -> None:
    with pytest.raises(PenstockError) as refused:
        await nsqds.start(options(tmp_path))
    assert "failed to lock data-path: cannot flock directory" in str(refused.value)
    assert "possibly in use by another instance of nsqd" in str(refused.value)


async def test_a_failed_start_leaves_nothing_open(nsqd: Running, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    taken = f"127.0.0.1:{nsqd.nsqd.ports.tcp}"
    with pytest.raises(PenstockError, match="address already in use"):
        await nsqds.start(options(other, tcp_address=taken))
    with pytest.raises(PenstockError, match="address already in use"):
        await nsqds.start(options(other, http_address=taken))
    await nsqds.stop(await nsqds.start(options(other)))


async def test_a_full_disk_does_not_keep_it_from_ending(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk("/data")
    monkeypatch.setattr(opening, "PatientDisk", lambda: disk)
    nsqd = await start(data_path="/data")
    consumer = await nsqd.consumer("t", ready=5)
    await nsqd.publish("t", b"1", b"2")
    message = await consumer.message()
    consumer.send(b"FIN %s\n" % message.id)
    await nsqd.until(
        lambda: nsqd.nsqd.node.broker.topics["t"].channels["c"].state.in_flight_count == 1
    )
    disk.fail("append", within="journal", times=-1, code=errno.ENOSPC)
    disk.fail("replace", times=-1, code=errno.ENOSPC)
    await nsqd.stop()
    assert "failed to save everything" in caplog.text
    disk.heal()
    again = await start(data_path="/data")
    assert (await again.channel("t"))["depth"] in (1, 2)


async def test_closing_answers_what_was_published(start: Start) -> None:
    nsqd = await start(durability=Durability.FSYNC)
    producer = await nsqd.connect()
    assert await producer.ask(pub("t", b"0")) == b"OK"
    producer.send(b"".join(pub("t", b"x") for _ in range(50)))
    await nsqd.until(lambda: nsqd.nsqd.node.broker.topics["t"].log.next_offset > 1)
    await nsqds.stop(nsqd.nsqd)
    answers = await asyncio.wait_for(producer.reader.read(), 30)
    nsqd._stopped = True
    producer.writer.close()
    again = await start()
    assert (await again.topic("t"))["depth"] >= 1 + answers.count(b"OK")


async def test_a_time_out_of_a_message_delivered_before_the_restart(start: Start) -> None:
    nsqd = await start()
    await nsqd.publish("t", b"x")
    consumer = await nsqd.consumer("t")
    await consumer.message()
    nsqd = await restarted(nsqd, start, msg_timeout=100 * MILLISECOND)
    consumer = await nsqd.consumer("t")
    assert [(await consumer.message()).attempts for _ in range(2)] == [2, 3]
