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
from penstock.rocketmq.broker.services import Services
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


async def crash(lives: Lives, services: Services) -> Services:
    await services.transactions.close()
    return await life(lives)


async def test_a_crash_before_the_outcome_leaves_it_open(lives: Lives) -> None:
    services = await life(lives)
    half = await begin(services)
    services = await crash(lives, services)
    assert services.transactions.book.is_open(0)
    await end(services, half, COMMIT)
    assert bodies(services) == [b"x"]
    await services.transactions.close()


async def test_a_commit_that_is_stored_and_not_told_yet_is_looked_for(lives: Lives) -> None:
    """Another transaction ends meanwhile, and what is settled is written down."""
    services = await life(lives)
    first, second = await begin(services), await begin(services, b"second")
    append = services.store.append

    async def append_and_hang(draft: Draft) -> Placed:
        await append(draft)
        return await asyncio.get_running_loop().create_future()

    services.store.append = append_and_hang  # type: ignore[method-assign]
    task = spawn(end(services, second, COMMIT), "end")
    await until(lambda: ops(services))
    services.store.append = append  # type: ignore[method-assign]
    await end(services, first, ROLLBACK)
    services.files.save("consumerOffset.json")
    task.cancel()
    services = await crash(lives, services)
    await until(lambda: bodies(services))
    assert bodies(services) == [b"second"]
    await services.transactions.close()


@pytest.mark.parametrize(("how", "other"), [(COMMIT, ROLLBACK), (ROLLBACK, COMMIT)])
@pytest.mark.parametrize("is_saved", [False, True])
async def test_an_outcome_is_known_after_a_crash(
    lives: Lives, how: int, other: int, is_saved: bool
) -> None:
    services = await life(lives)
    half = await begin(services)
    await end(services, half, how)
    if is_saved:
        services.files.save("consumerOffset.json")
    services = await crash(lives, services)
    assert settled(services) == (1, 1)
    with pytest.raises(RefusedError, match="already"):
        await end(services, half, other)
    await end(services, half, how)
    assert bodies(services) == [b"x"] * (how == COMMIT)  # and it is not doubled
    await services.transactions.close()


@pytest.mark.parametrize("more", [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "9"}])
async def test_a_crash_between_the_outcome_and_its_message(
    lives: Lives, more: dict[str, Any]
) -> None:
    topic = {"DELAY": names.SCHEDULE_TOPIC, "TIMER_DELAY_SEC": names.TIMER_TOPIC}.get(
        next(iter(more), ""), "T"
    )
    services = await life(lives)
    half = await begin(services, **more)
    hanging = FailingPuts(services, topic, hang=True)
    task = spawn(end(services, half, COMMIT), "end")
    await until(lambda: hanging.count)
    assert ops(services) == [(b"0", "commit")]
    services = await crash(lives, services)
    task.cancel()
    await until(lambda: stored(services, topic))
    with pytest.raises(RefusedError, match="committed already"):
        await end(services, half, ROLLBACK)
    await end(services, half, COMMIT)
    services = await crash(lives, services)
    services = await crash(lives, services)
    await asyncio.sleep(0.02)
    assert [m.body for m in stored(services, topic)] == [b"x"]
    await services.transactions.close()


async def test_a_message_whose_appointment_has_passed_since_a_crash_is_not_doubled(
    lives: Lives, clock: FakeClock
) -> None:
    services = await life(lives)
    deliver_ms = str(services.now_ms + 1000)
    await end(services, await begin(services, TIMER_DELIVER_MS=deliver_ms), COMMIT)
    clock.advance(2 * SECOND)
    services = await crash(lives, services)
    assert not list(services.transactions.book.undone())
    while await services.timers.step() <= services.now_ms:
        pass
    assert bodies(services) == [b"x"]
    services = await crash(lives, services)
    assert bodies(services) == [b"x"]
    await services.transactions.close()


async def test_an_owed_outcome_waits_for_a_disk_that_cannot_be_read(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "RETRY_S", 0.001)
    services = await life(lives)
    half = await begin(services)
    failing = FailingPuts(services, "T")
    with pytest.raises(StorageError):
        await end(services, half, COMMIT)
    read, reads = services.store.message_at, 0

    def unreadable(topic: str, queue: int, offset: int) -> None:
        nonlocal reads
        reads += 1
        raise StorageError("input/output error")

    monkeypatch.setattr(services.store, "message_at", unreadable)
    await until(lambda: reads)
    monkeypatch.setattr(services.store, "message_at", read)
    failing.mend()
    await until(lambda: bodies(services))
    await services.transactions.close()


async def test_a_crash_during_giving_up(lives: Lives) -> None:
    services = await life(lives)
    half = await begin(services)
    message = services.store.message(half.physical_offset)
    assert message is not None
    hanging = FailingPuts(services, names.GIVEN_UP_HALF_TOPIC, hang=True)
    task = spawn(services.transactions.end(message, Outcome.GIVE_UP), "end")
    await until(lambda: hanging.count)
    services = await crash(lives, services)
    task.cancel()
    await until(lambda: stored(services, names.GIVEN_UP_HALF_TOPIC))
    services = await crash(lives, services)
    assert len(stored(services, names.GIVEN_UP_HALF_TOPIC)) == 1
    await end(services, half, COMMIT)
    services = await crash(lives, services)
    with pytest.raises(RefusedError, match="committed already"):
        await end(services, half, ROLLBACK)
    assert bodies(services) == [b"x"]
    await services.transactions.close()


async def test_copies_are_one_transaction_after_a_crash(lives: Lives) -> None:
    services = await life(lives)
    half = await begin(services)
    message = services.store.message(half.physical_offset)
    assert message is not None
    copy = await services.store.append(copy_of(message, 1))
    services = await crash(lives, services)
    assert (services.transactions.book.is_open(0), services.transactions.book.is_open(1)) == (
        False,
        True,
    )
    await end(services, half, COMMIT)  # by the offsets of the first one
    services = await crash(lives, services)
    with pytest.raises(RefusedError, match="committed already"):
        await end(services, copy, ROLLBACK)
    assert bodies(services) == [b"x"]
    assert settled(services) == (2, 1)
    await services.transactions.close()


async def test_open_ones_hold_what_is_read_again(lives: Lives, clock: FakeClock) -> None:
    """One open transaction at the start, a thousand that ended behind it, any order of crashes."""
    services = await life(lives)
    first = await begin(services, b"first")
    halves = [await begin(services, b"%d" % number, number % 4) for number in range(1000)]
    for number, half in enumerate(halves):
        await end(services, half, COMMIT if number % 2 else ROLLBACK)
        clock.advance(SECOND // 100)
    assert settled(services) == (None, None)
    services = await crash(lives, services)
    for number, half in enumerate(halves):
        with pytest.raises(RefusedError):
            await end(services, half, ROLLBACK if number % 2 else COMMIT)
    await end(services, first, COMMIT)
    assert settled(services) == (1001, 1001)
    services.files.save("consumerOffset.json")
    services = await crash(lives, services)
    found = sorted(body for queue in range(4) for body in bodies(services, queue))
    assert found == sorted([b"first", *(b"%d" % number for number in range(1, 1000, 2))])
    assert list(services.transactions.book.undone()) == []
    assert services.transactions.window == 0
    await services.transactions.close()


async def test_outcomes_of_a_deleted_half_topic_do_not_count(lives: Lives) -> None:
    services = await life(lives)
    await end(services, await begin(services), COMMIT)
    await services.store.delete(names.HALF_TOPIC)
    half = await begin(services, b"new")
    services = await crash(lives, services)
    await end(services, half, ROLLBACK)
    services = await crash(lives, services)
    with pytest.raises(RefusedError, match="rolled back already"):
        await end(services, half, COMMIT)
    assert bodies(services) == [b"x"]
    await services.transactions.close()


async def test_progress_beyond_the_topics_is_set_right(lives: Lives) -> None:
    services = await life(lives)
    for topic in (names.HALF_TOPIC, names.OP_HALF_TOPIC):
        services.offsets.commit(topic, names.TRANSACTION_GROUP, 0, 100)
    services.files.save("consumerOffset.json")
    services = await crash(lives, services)
    half = await begin(services)
    await end(services, half, COMMIT)
    assert bodies(services) == [b"x"]
    await services.transactions.close()
