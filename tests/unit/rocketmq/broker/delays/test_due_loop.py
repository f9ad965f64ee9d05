"""A clockwork that sleeps until its next deadline."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.broker.delays import due_loop
from penstock.rocketmq.broker.delays.due_loop import FAR, DueLoop
from tests.unit.rocketmq.broker.lives import until


def now_ms() -> int:
    return SYSTEM_CLOCK.wall_ns() // MILLISECOND


class Work:
    """Steps that note when they are called, and a file that notes who wrote it."""

    def __init__(self, *deadlines: int) -> None:
        self.deadlines = list(deadlines)
        self.called: list[int] = []
        self.saves: list[int] = []
        self.loop = DueLoop("test", SYSTEM_CLOCK, now_ms, self.step, self.save)

    async def step(self) -> int:
        self.called.append(now_ms())
        return self.deadlines.pop(0) if self.deadlines else FAR

    async def save(self) -> None:
        self.saves.append(now_ms())


async def test_it_sleeps_until_a_deadline_and_not_less() -> None:
    due = now_ms() + 60
    work = Work(due)
    work.loop.start()
    await until(lambda: len(work.called) >= 2)
    assert work.called[1] >= due
    await asyncio.sleep(0.03)
    assert len(work.called) == 2  # the next one never comes
    await work.loop.close()


async def test_it_is_woken_for_an_earlier_deadline() -> None:
    work = Work()
    work.loop.start()
    await until(lambda: work.called)
    work.loop.wake()
    await until(lambda: len(work.called) == 2)
    await work.loop.close()
    assert len(work.called) <= 3


async def test_a_wake_during_a_step_is_not_lost() -> None:
    work = Work()
    step = work.loop._step

    async def waking() -> int:
        if not work.called:
            work.loop.wake()
        return await step()

    work.loop._step = waking
    work.loop.start()
    await until(lambda: len(work.called) == 2)
    await work.loop.close()


async def test_others_have_their_turn_between_steps() -> None:
    work = Work(*[0] * 1000)
    work.loop.start()
    turns = 0
    while len(work.called) < 1000:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 900
    await work.loop.close()


async def test_a_step_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(due_loop, "RETRY_MS", 5)
    failures: list[Exception] = [StorageError("disk is gone"), ValueError("a bug")]
    work = Work()

    async def failing() -> int:
        work.called.append(now_ms())
        if failures:
            raise failures.pop(0)
        return FAR

    work.loop = DueLoop("test", SYSTEM_CLOCK, now_ms, failing, work.save)
    with caplog.at_level(logging.ERROR):
        work.loop.start()
        await until(lambda: len(work.called) == 3)
    assert "disk is gone" in caplog.text
    assert "a bug" in caplog.text
    await work.loop.close()


async def test_progress_is_saved_soon_and_not_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_loop, "_SAVE_REST_NS", SECOND // 2)
    work = Work()
    work.loop.start()
    for _ in range(50):
        work.loop.changed()
        await asyncio.sleep(0)
    await until(lambda: work.saves)
    assert len(work.saves) == 1
    await work.loop.close()


@pytest.mark.parametrize("error", [StorageError("full"), ValueError("a mistake")])
async def test_a_save_that_fails_is_tried_again(error: Exception) -> None:
    work = Work()
    tries = []

    async def failing() -> None:
        tries.append(now_ms())
        if len(tries) == 1:
            raise error

    work.loop = DueLoop("test", SYSTEM_CLOCK, now_ms, work.step, failing)
    work.loop.changed()
    await until(lambda: len(tries) == 2)
    await work.loop.close()


async def test_closing_lets_a_step_come_to_its_end() -> None:
    ended = []
    going = asyncio.Event()

    async def slow() -> int:
        going.set()
        await asyncio.sleep(0.05)
        ended.append(True)
        return FAR

    loop = DueLoop("test", SYSTEM_CLOCK, now_ms, slow, Work().save)
    loop.start()
    await going.wait()
    await loop.close()
    assert ended == [True]
