"""Staged parts over time: bounds, expiry, restarts, disks that fail, topics that go."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.publish.commit import Commit
from penstock.broker.publish.parts import CHUNK_BYTES_MIN, ChunkKey
from penstock.core.units import HOUR, MINUTE, SECOND
from penstock.nsq.protocol.frames import BODY_AT
from penstock.storage.durability import Durability
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import Running, Start, faulty_disk, pub, slow_disk
from tests.programs.nsq.nsqd.staging import Writer, bodies_of

NOT_FOUND = {"message": "PART_NOT_FOUND", "part": 0, "attempt": 0, "chunk": 0}


def told(answer: dict[str, Any], topic: str = "t") -> tuple[int, dict[str, Any]]:
    return 200, {"topics": {topic: answer}}


def committed(count: int) -> tuple[int, dict[str, Any]]:
    return told({"count": count, "again": False})


AGAIN = told({"count": 0, "again": True})


def files(running: Running) -> list[str]:
    """The files of staged parts."""
    store = running.nsqd.node.broker.store
    return [name for name in store.disk.list(f"{store.data_path}/staged") if name[-1] == "t"]


async def publish_one(running: Running, body: bytes) -> None:
    assert await (await running.connect()).ask(pub("t", body)) == b"OK"


def spoil(running: Running) -> None:
    """Change the last byte of the only file of a staged part."""
    (name,) = files(running)
    path = Path(running.nsqd.options.data_path, "staged", name)
    path.write_bytes(path.read_bytes()[:-1] + b"X")


async def test_staged_bytes_are_bounded_until_they_are_committed_or_dropped(start: Start) -> None:
    nsqd = await start(max_staged_bytes=2 * CHUNK_BYTES_MIN)
    writer = Writer(nsqd)
    for batch in (0, 1):
        assert (await writer.stage(batch, b"a"))[0] == 200
    full = 507, {"message": "STAGE_FULL", "limit": 2 * CHUNK_BYTES_MIN}
    assert await writer.stage(2, b"a") == full
    assert await writer.commit(0) == committed(1)
    assert (await writer.stage(2, b"a"))[0] == 200
    assert await writer.stage(3, b"a") == full
    assert await writer.abort(2) == (200, {})
    assert (await writer.stage(3, b"a"))[0] == 200
    assert await writer.commit(2) == told(NOT_FOUND)


async def test_committed_and_dropped_parts_leave_no_file(nsqd: Running) -> None:
    writer = Writer(nsqd)
    for attempt in (0, 1):
        await writer.stage(0, b"a", attempt=attempt)
    await writer.stage(1, b"b")
    await writer.stage(1, b"b again")
    await nsqd.until(lambda: len(files(nsqd)) == 3)
    await writer.commit(0)
    await nsqd.until(lambda: len(files(nsqd)) == 1)
    await writer.abort(1)
    await nsqd.until(lambda: not files(nsqd))


async def test_parts_that_nobody_commits_expire(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    nsqd = await start(clock=clock, staged_retention=HOUR)
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    clock.advance(HOUR - SECOND)
    await writer.stage(1, b"b")
    with caplog.at_level(logging.WARNING, logger="penstock.nsqd"):
        clock.advance(2 * SECOND)
        await nsqd.until(lambda: len(files(nsqd)) == 1)
    assert ("TOPIC(t): dropping batch 0 of writer w, 16384 bytes that were staged and not "
            "committed for 1h0m0s (--staged-retention)") in caplog.text  # fmt: skip
    assert await writer.commit(0) == told(NOT_FOUND)
    assert await writer.commit(1) == committed(1)


async def test_what_is_decided_does_not_expire_and_is_told_of_once(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    nsqd = await start(clock=clock, staged_retention=HOUR)
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    assert await writer.decide(0, (0, 0), chunks=1) == (200, {})
    with caplog.at_level(logging.WARNING, logger="penstock.nsqd"):
        for _ in range(3):
            clock.advance(HOUR)
            nsqd.nsqd.staged_parts.tick(clock.monotonic_ns())
    told_of = [each for each in caplog.messages if "was decided" in each]
    assert told_of == ["batch 0 of writer w was decided and not committed for 1h0m0s: it is kept "
                       "until its writer, started again, commits it, or POST /stage/abort drops "
                       "it with decided=true"]  # fmt: skip
    await writer.commit_decided(0)
    assert await writer.bodies() == [b"a"]


async def test_a_decided_chunk_that_is_lost_is_an_error_of_its_topic(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    await writer.stage(0, b"b", chunk=1)
    await writer.decide(0, (0, 0), chunks=2)
    nsqd.nsqd.staged_parts.parts.lose("t", "w", 0, ChunkKey(0, 0, 1))
    status, answer = await writer.commit_decided(0)
    assert (status, answer["topics"]) == (200, {"t": {"message": "PART_NOT_FOUND", "missing": 1}})
    assert await writer.bodies() == []
    assert (await writer.decision())["begun"] is False


async def test_a_decision_that_cannot_be_written_is_none(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    disk.fail("replace", within=".decision")
    assert (await writer.decide(0, (0, 0), chunks=1))[0] == 503
    disk.heal()
    assert await writer.decision() is None
    assert await writer.decide(0, (0, 0), chunks=1) == (200, {})


@pytest.mark.parametrize(("away", "left"), [(HOUR, 0), (MINUTE, 10 * MINUTE)])
async def test_a_restart_counts_the_age_of_parts_and_takes_none_at_once(
    start: Start, away: int, left: int
) -> None:
    """Neither a clock that was set ahead nor a long stop takes what was just staged."""
    clock = FakeClock()
    nsqd = await start(clock=clock, staged_retention=HOUR)
    await Writer(nsqd).stage(0, b"a")
    await nsqd.stop()
    clock.advance(away)
    nsqd = await start(clock=clock, staged_retention=HOUR)
    clock.advance(10 * MINUTE - SECOND)
    nsqd.nsqd.staged_parts.tick(clock.monotonic_ns())
    assert len(nsqd.nsqd.staged_parts.parts) == 1
    clock.advance(left + 2 * SECOND)
    nsqd.nsqd.staged_parts.tick(clock.monotonic_ns())
    assert len(nsqd.nsqd.staged_parts.parts) == (1 if left else 0)


async def test_a_deleted_topic_takes_its_parts_and_writers_along(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    await writer.commit(0)
    await writer.stage(1, b"b")
    assert (await nsqd.post("/topic/delete?topic=t"))[0] == 200
    await nsqd.until(lambda: not files(nsqd))
    assert await writer.rows() == []
    assert await writer.commit(1) == told({"message": "TOPIC_NOT_FOUND"})
    assert (await writer.stage(0, b"c"))[0] == 200
    assert await writer.commit(0) == committed(1)
    assert await writer.bodies() == [b"c"]


async def test_parts_of_an_earlier_topic_of_that_name_do_not_come_back(
    nsqd: Running, start: Start
) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"old")
    folder = Path(nsqd.nsqd.options.data_path, "staged")
    shutil.copytree(folder, folder.with_name("kept"))
    await nsqd.post("/topic/delete?topic=t")
    await nsqd.post("/topic/create?topic=t")
    await nsqd.stop()
    shutil.rmtree(folder)
    folder.with_name("kept").rename(folder)  # as a power cut brings them back
    nsqd = await start()
    assert files(nsqd) == []
    assert await Writer(nsqd).commit(0) == told(NOT_FOUND)


async def test_parts_that_were_committed_do_not_come_back(nsqd: Running, start: Start) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    folder = Path(nsqd.nsqd.options.data_path, "staged")
    shutil.copytree(folder, folder.with_name("kept"))
    await writer.commit(0)
    await nsqd.until(lambda: not files(nsqd))
    await nsqd.stop()
    shutil.rmtree(folder)
    folder.with_name("kept").rename(folder)  # as if they could not be removed
    nsqd = await start()
    assert files(nsqd) == []
    assert await Writer(nsqd).commit(0) == AGAIN
    assert await Writer(nsqd).bodies() == [b"a"]


async def test_a_part_whose_file_is_damaged_is_not_there(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"abc")
    spoil(nsqd)
    assert await writer.commit(0) == told(NOT_FOUND)
    assert nsqd.nsqd.staged_parts.parts.nbytes == 0
    await writer.stage(0, b"abc")
    assert await writer.commit(0) == committed(1)


async def test_a_full_disk_refuses_parts_and_commits_and_it_goes_on_after_that(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    writer = Writer(nsqd)
    await writer.stage(0, bytes(500))
    disk.fill(100)
    assert await writer.stage(1, bytes(500)) == (503, {"message": "DISK_FULL"})
    assert len(nsqd.nsqd.staged_parts.parts) == 1
    answer = await writer.commit(0)
    assert answer[0] == 503
    assert await writer.bodies() == []
    disk.heal()
    assert await writer.commit(0) == committed(1)
    assert await writer.commit(0) == AGAIN
    assert await writer.bodies() == [bytes(500)]


async def test_after_a_failed_sync_a_commit_is_refused_until_a_restart_knows_better(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data", durability=Durability.FSYNC)
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    await writer.commit(0)
    await writer.stage(1, b"b")
    disk.fail("sync", 1, within=".log", code=errno.EIO)
    failed = 503, {"message": "DISK_FAILED", "topic": "t"}
    for _ in range(2):
        assert await writer.commit(1) == failed
    assert (await writer.stage(1, b"b"))[1] == {"message": "DISK_FAILED"}
    await nsqd.stop()
    disk.heal()
    writer = Writer(await start(data_path="/data", durability=Durability.FSYNC))
    await writer.stage(1, b"b")
    await writer.commit(1)
    assert await writer.commit(1) == AGAIN
    assert await writer.bodies() == [b"a", b"b"]


async def test_at_fsync_a_commit_is_answered_and_seen_after_its_sync(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, gate = slow_disk(monkeypatch, within=".log")
    nsqd = await start(data_path="/data", durability=Durability.FSYNC)
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    await writer.commit(0)
    await writer.stage(1, b"b")
    gate.clear()
    commit = asyncio.ensure_future(writer.commit(1))
    await nsqd.until(lambda: bool(nsqd.nsqd.node.broker.topics["t"].writers.pending))
    assert await writer.bodies() == [b"a"]
    assert not commit.done()
    gate.set()
    assert await commit == committed(1)
    assert await writer.bodies() == [b"a", b"b"]


async def test_of_commits_at_the_same_time_one_appends(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, *[b"%d" % number for number in range(1000)])
    answers = await asyncio.gather(*(writer.commit(0) for _ in range(5)))
    assert sorted(answers, key=str) == sorted([committed(1000), *4 * [AGAIN]], key=str)
    assert len(await writer.bodies()) == 1000


async def test_publishes_go_on_while_commits_are_made_and_mix_with_none(nsqd: Running) -> None:
    writer = Writer(nsqd)
    client = await nsqd.connect()

    async def publish() -> None:
        for number in range(200):
            assert await client.ask(pub("t", b"p%d" % number)) == b"OK"

    async def commit() -> None:
        for batch in range(20):
            await writer.stage(batch, *[b"%d.%d" % (batch, number) for number in range(50)])
            assert await writer.commit(batch) == committed(50)

    await asyncio.gather(publish(), commit())
    found = await bodies_of(nsqd, "t")
    assert [each for each in found if each[:1] == b"p"] == [b"p%d" % n for n in range(200)]
    for batch in range(20):
        start = found.index(b"%d.0" % batch)
        assert found[start : start + 50] == [b"%d.%d" % (batch, n) for n in range(50)]


async def test_a_commit_of_many_chunks_is_read_as_it_was_staged(start: Start) -> None:
    """More than is kept in memory: of one size or of several, with delays, and over a restart."""
    nsqd = await start(max_bytes_per_file=1 << 20)
    writer = Writer(nsqd)
    chunks = [[b"%d.%d" % (chunk, number) + bytes(500) for number in range(2000)]
              for chunk in range(6)]  # fmt: skip
    chunks[2] = [b"x" * (1 + number % 700) for number in range(2000)]
    for chunk, bodies in enumerate(chunks):
        await writer.stage(0, *bodies, chunk=chunk)
    await publish_one(nsqd, b"before")
    assert await writer.commit(0, (0, 0, 6)) == committed(12_000)
    await publish_one(nsqd, b"after")
    wanted = [b"before", *(body for bodies in chunks for body in bodies), b"after"]
    assert await writer.bodies() == wanted
    await nsqd.stop()
    nsqd = await start()
    assert await Writer(nsqd).commit(0, (0, 0, 6)) == AGAIN
    assert await Writer(nsqd).bodies() == wanted


async def test_ids_and_times_of_committed_messages_are_those_of_their_place(nsqd: Running) -> None:
    writer = Writer(nsqd)
    even, odd = [b"%02d" % number for number in range(20)], [b"y" * n for n in range(1, 31)]
    await writer.stage(0, *even)
    await writer.stage(0, *odd, chunk=1)
    await writer.commit(0, (0, 0, 2))
    topic = nsqd.nsqd.node.broker.topics["t"]
    for batch in topic.log.batches_at(0)[0]:
        starts = batch.positions()[:-1].tolist()
        heads = [bytes(batch.frames[start : start + BODY_AT]) for start in starts]
        assert [int(head[18:], 16) for head in heads] == [
            batch.first_id + number for number in range(batch.count)
        ]
        assert {head[8:16] for head in heads} == {batch.timestamp_ns.to_bytes(8, "big")}
        assert batch.timestamp_ns > 0


async def test_a_commit_of_which_a_part_cannot_be_read_leaves_nothing(start: Start) -> None:
    nsqd = await start()
    writer = Writer(nsqd)
    await writer.stage(0, bytes(900), chunk=1)
    spoil(nsqd)
    await writer.stage(0, bytes(900), chunk=0)
    missing = {"message": "PART_NOT_FOUND", "part": 0, "attempt": 0, "chunk": 1}
    assert await writer.commit(0, (0, 0, 2)) == told(missing)
    await publish_one(nsqd, b"p")
    await nsqd.stop()
    nsqd = await start()
    assert await Writer(nsqd).bodies() == [b"p"]
    await Writer(nsqd).stage(0, b"c", chunk=1)
    assert await Writer(nsqd).commit(0, (0, 0, 2)) == committed(2)


async def test_a_topic_that_is_deleted_during_a_commit_takes_nothing(
    nsqd: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    topic = nsqd.nsqd.node.broker.topics["t"]
    started, go_on = asyncio.Event(), asyncio.Event()
    to_thread = asyncio.to_thread

    async def held(work: Any, *args: Any) -> Any:
        if args and isinstance(args[0], Commit):  # it is being filled
            started.set()
            await go_on.wait()
        return await to_thread(work, *args)

    monkeypatch.setattr(asyncio, "to_thread", held)
    commit = asyncio.ensure_future(writer.commit(0))
    await started.wait()
    delete = asyncio.ensure_future(nsqd.post("/topic/delete?topic=t"))
    await nsqd.until(lambda: topic.exiting)
    go_on.set()
    assert await commit == (503, {"message": "EXITING", "topic": "t"})
    assert (await delete)[0] == 200
    await nsqd.until(lambda: not files(nsqd))
