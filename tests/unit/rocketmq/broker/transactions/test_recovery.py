"""What a start finds out about transactions, wherever the life before ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.core.errors import StorageError
from penstock.core.units import SECOND
from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.broker.transactions import ending
from penstock.rocketmq.broker.transactions.book import Outcome
from penstock.rocketmq.broker.transactions.half_messages import copy_of
from tests.unit.rocketmq.broker.filling import FailingPuts, stored, until

from .conftest import COMMIT, ROLLBACK, Scene

OFFSETS = "consumerOffset.json"


async def test_a_crash_before_the_outcome_leaves_it_open(scene: Scene) -> None:
    half = await scene.begin()
    await scene.crash()
    assert scene.services.transactions.book.is_open(0)
    await scene.end(half, COMMIT)
    assert scene.bodies() == [b"x"]


async def test_a_commit_that_is_stored_and_not_told_yet_is_looked_for(scene: Scene) -> None:
    """Another transaction ends meanwhile, and what is settled is written down."""
    first, second = await scene.begin(), await scene.begin(b"second")
    store = scene.services.store
    append = store.append

    async def append_and_hang(draft: Draft) -> Placed:
        await append(draft)
        return await asyncio.get_running_loop().create_future()

    store.append = append_and_hang  # type: ignore[method-assign]
    task = spawn(scene.end(second, COMMIT), "end")
    await until(lambda: scene.ops)
    store.append = append  # type: ignore[method-assign]
    await scene.end(first, ROLLBACK)
    scene.services.files.save(OFFSETS)
    task.cancel()
    await scene.crash()
    await until(scene.bodies)
    assert scene.bodies() == [b"second"]


@pytest.mark.parametrize(("how", "other"), [(COMMIT, ROLLBACK), (ROLLBACK, COMMIT)])
@pytest.mark.parametrize("is_saved", [False, True])
async def test_an_outcome_is_known_after_a_crash(
    scene: Scene, how: int, other: int, is_saved: bool
) -> None:
    half = await scene.begin()
    await scene.end(half, how)
    if is_saved:
        scene.services.files.save(OFFSETS)
    await scene.crash()
    assert scene.settled == (1, 1)
    with pytest.raises(RefusedError, match="already"):
        await scene.end(half, other)
    await scene.end(half, how)
    assert scene.bodies() == [b"x"] * (how == COMMIT)  # and it is not doubled


@pytest.mark.parametrize(
    ("more", "topic"),
    [({}, "T"), ({"DELAY": "1"}, names.SCHEDULE_TOPIC),
     ({"TIMER_DELAY_SEC": "9"}, names.TIMER_TOPIC)],
)  # fmt: skip
async def test_a_crash_between_the_outcome_and_its_message(
    scene: Scene, more: dict[str, Any], topic: str
) -> None:
    half = await scene.begin(**more)
    hanging = FailingPuts(scene.services, topic, hang=True)
    task = spawn(scene.end(half, COMMIT), "end")
    await until(lambda: hanging.count)
    assert scene.ops == [(b"0", "commit")]
    await scene.crash()
    task.cancel()
    await until(lambda: stored(scene.services, topic))
    with pytest.raises(RefusedError, match="committed already"):
        await scene.end(half, ROLLBACK)
    await scene.end(half, COMMIT)
    for _ in range(2):
        await scene.crash()
    await asyncio.sleep(0.02)
    assert [message.body for message in stored(scene.services, topic)] == [b"x"]


async def test_a_message_whose_appointment_has_passed_since_a_crash_is_not_doubled(
    scene: Scene,
) -> None:
    deliver_ms = str(scene.services.now_ms + 1000)
    await scene.end(await scene.begin(TIMER_DELIVER_MS=deliver_ms), COMMIT)
    scene.clock.advance(2 * SECOND)
    await scene.crash()
    assert not list(scene.services.transactions.book.undone())
    while await scene.services.timers.step() <= scene.services.now_ms:
        pass
    assert scene.bodies() == [b"x"]
    await scene.crash()
    assert scene.bodies() == [b"x"]


async def test_an_owed_outcome_waits_for_a_disk_that_cannot_be_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "RETRY_S", 0.001)
    half = await scene.begin()
    failing = FailingPuts(scene.services, "T")
    with pytest.raises(StorageError):
        await scene.end(half, COMMIT)
    reads = 0

    def unreadable(topic: str, queue: int, offset: int) -> None:
        nonlocal reads
        reads += 1
        raise StorageError("input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(scene.services.store, "message_at", unreadable)
        await until(lambda: reads)
    failing.mend()
    await until(scene.bodies)


async def test_a_crash_during_giving_up(scene: Scene) -> None:
    half = await scene.begin()
    hanging = FailingPuts(scene.services, names.GIVEN_UP_HALF_TOPIC, hang=True)
    task = spawn(scene.services.transactions.end(scene.message(half), Outcome.GIVE_UP), "end")
    await until(lambda: hanging.count)
    await scene.crash()
    task.cancel()
    await until(lambda: scene.given_up)
    await scene.crash()
    assert len(scene.given_up) == 1
    await scene.end(half, COMMIT)
    await scene.crash()
    with pytest.raises(RefusedError, match="committed already"):
        await scene.end(half, ROLLBACK)
    assert scene.bodies() == [b"x"]


async def test_copies_are_one_transaction_after_a_crash(scene: Scene) -> None:
    half = await scene.begin()
    copy = await scene.services.store.append(copy_of(scene.message(half), 1))
    await scene.crash()
    book = scene.services.transactions.book
    assert (book.is_open(0), book.is_open(1)) == (False, True)
    await scene.end(half, COMMIT)  # by the offsets of the first one
    await scene.crash()
    with pytest.raises(RefusedError, match="committed already"):
        await scene.end(copy, ROLLBACK)
    assert scene.bodies() == [b"x"]
    assert scene.settled == (2, 1)


async def test_open_ones_hold_what_is_read_again(scene: Scene) -> None:
    """One open transaction at the start, a thousand that ended behind it, any order of crashes."""
    first = await scene.begin(b"first")
    halves = [await scene.begin(b"%d" % number, number % 4) for number in range(1000)]
    for number, half in enumerate(halves):
        await scene.end(half, COMMIT if number % 2 else ROLLBACK)
        scene.clock.advance(SECOND // 100)
    assert scene.settled == (None, None)
    await scene.crash()
    for number, half in enumerate(halves):
        with pytest.raises(RefusedError):
            await scene.end(half, ROLLBACK if number % 2 else COMMIT)
    await scene.end(first, COMMIT)
    assert scene.settled == (1001, 1001)
    scene.services.files.save(OFFSETS)
    await scene.crash()
    found = sorted(body for queue in range(4) for body in scene.bodies(queue))
    assert found == sorted([b"first", *(b"%d" % number for number in range(1, 1000, 2))])
    assert list(scene.services.transactions.book.undone()) == []
    assert scene.services.transactions.window == 0


async def test_outcomes_of_a_deleted_half_topic_do_not_count(scene: Scene) -> None:
    await scene.end(await scene.begin(), COMMIT)
    await scene.services.store.delete(names.HALF_TOPIC)
    half = await scene.begin(b"new")
    await scene.crash()
    await scene.end(half, ROLLBACK)
    await scene.crash()
    with pytest.raises(RefusedError, match="rolled back already"):
        await scene.end(half, COMMIT)
    assert scene.bodies() == [b"x"]


async def test_progress_beyond_the_topics_is_set_right(scene: Scene) -> None:
    for topic in (names.HALF_TOPIC, names.OP_HALF_TOPIC):
        scene.services.offsets.commit(topic, names.TRANSACTION_GROUP, 0, 100)
    scene.services.files.save(OFFSETS)
    await scene.crash()
    await scene.end(await scene.begin(), COMMIT)
    assert scene.bodies() == [b"x"]
