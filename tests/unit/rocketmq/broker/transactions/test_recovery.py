"""What a start finds out about transactions, wherever the life before ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import StorageError
from penstock.core.units import SECOND
from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.broker.transactions import ending
from penstock.rocketmq.broker.transactions.book import Outcome
from penstock.rocketmq.broker.transactions.half_messages import copy_of
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.lives import FailingPuts, Lives, stored, until

from .halves import COMMIT, ROLLBACK, begin, bodies, end, life, ops, settled


@pytest.fixture
async def lives(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Lives]:
    lives = Lives(tmp_path, clock)
    yield lives
    lives.end()


async def crash(lives: Lives, controller: Controller) -> Controller:
    await controller.transactions.close()
    return await life(lives)


async def test_a_crash_before_the_outcome_leaves_it_open(lives: Lives) -> None:
    controller = await life(lives)
    half = await begin(controller)
    controller = await crash(lives, controller)
    assert controller.transactions.book.is_open(0)
    await end(controller, half, COMMIT)
    assert bodies(controller) == [b"x"]
    await controller.transactions.close()


async def test_a_commit_that_is_stored_and_not_told_yet_is_looked_for(lives: Lives) -> None:
    """Another transaction ends meanwhile, and what is settled is written down."""
    controller = await life(lives)
    first, second = await begin(controller), await begin(controller, b"second")
    append = controller.store.append

    async def append_and_hang(draft: Draft) -> Placed:
        await append(draft)
        return await asyncio.get_running_loop().create_future()

    controller.store.append = append_and_hang  # type: ignore[method-assign]
    task = spawn(end(controller, second, COMMIT), "end")
    await until(lambda: ops(controller))
    controller.store.append = append  # type: ignore[method-assign]
    await end(controller, first, ROLLBACK)
    controller.state.save("consumerOffset.json")
    task.cancel()
    controller = await crash(lives, controller)
    await until(lambda: bodies(controller))
    assert bodies(controller) == [b"second"]
    await controller.transactions.close()


@pytest.mark.parametrize(("how", "other"), [(COMMIT, ROLLBACK), (ROLLBACK, COMMIT)])
@pytest.mark.parametrize("is_saved", [False, True])
async def test_an_outcome_is_known_after_a_crash(
    lives: Lives, how: int, other: int, is_saved: bool
) -> None:
    controller = await life(lives)
    half = await begin(controller)
    await end(controller, half, how)
    if is_saved:
        controller.state.save("consumerOffset.json")
    controller = await crash(lives, controller)
    assert settled(controller) == (1, 1)
    with pytest.raises(RefusedError, match="already"):
        await end(controller, half, other)
    await end(controller, half, how)
    assert bodies(controller) == [b"x"] * (how == COMMIT)  # and it is not doubled
    await controller.transactions.close()


@pytest.mark.parametrize("more", [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "9"}])
async def test_a_crash_between_the_outcome_and_its_message(
    lives: Lives, more: dict[str, Any]
) -> None:
    topic = {"DELAY": names.SCHEDULE_TOPIC, "TIMER_DELAY_SEC": names.TIMER_TOPIC}.get(
        next(iter(more), ""), "T"
    )
    controller = await life(lives)
    half = await begin(controller, **more)
    hanging = FailingPuts(controller, topic, hang=True)
    task = spawn(end(controller, half, COMMIT), "end")
    await until(lambda: hanging.count)
    assert ops(controller) == [(b"0", "commit")]
    controller = await crash(lives, controller)
    task.cancel()
    await until(lambda: stored(controller, topic))
    with pytest.raises(RefusedError, match="committed already"):
        await end(controller, half, ROLLBACK)
    await end(controller, half, COMMIT)
    controller = await crash(lives, controller)
    controller = await crash(lives, controller)
    await asyncio.sleep(0.02)
    assert [m.body for m in stored(controller, topic)] == [b"x"]
    await controller.transactions.close()


async def test_a_message_whose_appointment_has_passed_since_a_crash_is_not_doubled(
    lives: Lives, clock: FakeClock
) -> None:
    controller = await life(lives)
    deliver_ms = str(controller.now_ms + 1000)
    await end(controller, await begin(controller, TIMER_DELIVER_MS=deliver_ms), COMMIT)
    clock.advance(2 * SECOND)
    controller = await crash(lives, controller)
    assert not list(controller.transactions.book.undone())
    while await controller.timers.step() <= controller.now_ms:
        pass
    assert bodies(controller) == [b"x"]
    controller = await crash(lives, controller)
    assert bodies(controller) == [b"x"]
    await controller.transactions.close()


async def test_an_owed_outcome_waits_for_a_disk_that_cannot_be_read(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "RETRY_S", 0.001)
    controller = await life(lives)
    half = await begin(controller)
    failing = FailingPuts(controller, "T")
    with pytest.raises(StorageError):
        await end(controller, half, COMMIT)
    read, reads = controller.store.message_at, 0

    def unreadable(topic: str, queue: int, offset: int) -> None:
        nonlocal reads
        reads += 1
        raise StorageError("input/output error")

    monkeypatch.setattr(controller.store, "message_at", unreadable)
    await until(lambda: reads)
    monkeypatch.setattr(controller.store, "message_at", read)
    failing.mend()
    await until(lambda: bodies(controller))
    await controller.transactions.close()


async def test_a_crash_during_giving_up(lives: Lives) -> None:
    controller = await life(lives)
    half = await begin(controller)
    message = controller.store.message(half.physical_offset)
    assert message is not None
    hanging = FailingPuts(controller, names.GIVEN_UP_HALF_TOPIC, hang=True)
    task = spawn(controller.transactions.end(message, Outcome.GIVE_UP), "end")
    await until(lambda: hanging.count)
    controller = await crash(lives, controller)
    task.cancel()
    await until(lambda: stored(controller, names.GIVEN_UP_HALF_TOPIC))
    controller = await crash(lives, controller)
    assert len(stored(controller, names.GIVEN_UP_HALF_TOPIC)) == 1
    await end(controller, half, COMMIT)
    controller = await crash(lives, controller)
    with pytest.raises(RefusedError, match="committed already"):
        await end(controller, half, ROLLBACK)
    assert bodies(controller) == [b"x"]
    await controller.transactions.close()


async def test_copies_are_one_transaction_after_a_crash(lives: Lives) -> None:
    controller = await life(lives)
    half = await begin(controller)
    message = controller.store.message(half.physical_offset)
    assert message is not None
    copy = await controller.store.append(copy_of(message, 1))
    controller = await crash(lives, controller)
    assert (controller.transactions.book.is_open(0), controller.transactions.book.is_open(1)) == (
        False,
        True,
    )
    await end(controller, half, COMMIT)  # by the offsets of the first one
    controller = await crash(lives, controller)
    with pytest.raises(RefusedError, match="committed already"):
        await end(controller, copy, ROLLBACK)
    assert bodies(controller) == [b"x"]
    assert settled(controller) == (2, 1)
    await controller.transactions.close()


async def test_open_ones_hold_what_is_read_again(lives: Lives, clock: FakeClock) -> None:
    """One open transaction at the start, a thousand that ended behind it, any order of crashes."""
    controller = await life(lives)
    first = await begin(controller, b"first")
    halves = [await begin(controller, b"%d" % number, number % 4) for number in range(1000)]
    for number, half in enumerate(halves):
        await end(controller, half, COMMIT if number % 2 else ROLLBACK)
        clock.advance(SECOND // 100)
    assert settled(controller) == (None, None)
    controller = await crash(lives, controller)
    for number, half in enumerate(halves):
        with pytest.raises(RefusedError):
            await end(controller, half, ROLLBACK if number % 2 else COMMIT)
    await end(controller, first, COMMIT)
    assert settled(controller) == (1001, 1001)
    controller.state.save("consumerOffset.json")
    controller = await crash(lives, controller)
    found = sorted(body for queue in range(4) for body in bodies(controller, queue))
    assert found == sorted([b"first", *(b"%d" % number for number in range(1, 1000, 2))])
    assert list(controller.transactions.book.undone()) == []
    assert controller.transactions.window == 0
    await controller.transactions.close()


async def test_outcomes_of_a_deleted_half_topic_do_not_count(lives: Lives) -> None:
    controller = await life(lives)
    await end(controller, await begin(controller), COMMIT)
    await controller.store.delete(names.HALF_TOPIC)
    half = await begin(controller, b"new")
    controller = await crash(lives, controller)
    await end(controller, half, ROLLBACK)
    controller = await crash(lives, controller)
    with pytest.raises(RefusedError, match="rolled back already"):
        await end(controller, half, COMMIT)
    assert bodies(controller) == [b"x"]
    await controller.transactions.close()


async def test_progress_beyond_the_topics_is_set_right(lives: Lives) -> None:
    controller = await life(lives)
    for topic in (names.HALF_TOPIC, names.OP_HALF_TOPIC):
        controller.offsets.commit(topic, names.TRANSACTION_GROUP, 0, 100)
    controller.state.save("consumerOffset.json")
    controller = await crash(lives, controller)
    half = await begin(controller)
    await end(controller, half, COMMIT)
    assert bodies(controller) == [b"x"]
    await controller.transactions.close()
