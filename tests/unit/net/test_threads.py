"""Blocking work beside the loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable

from penstock.net import threads
from penstock.net.threads import Threads

TIMEOUT_S = 30.0


async def outcome(pool: Threads, work: Callable[[], None]) -> Exception | None:
    """What ``done`` is told."""
    told: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    pool.run(work, told.set_result)
    async with asyncio.timeout(TIMEOUT_S):
        return await told


def alive(pool: Threads) -> int:
    return pool._threads


async def test_it_is_done_in_another_thread_and_told_in_this_one() -> None:
    places: list[int] = []
    ended = asyncio.Event()

    def done(error: Exception | None) -> None:
        assert error is None
        places.append(threading.get_ident())
        ended.set()

    threads.run(lambda: places.append(threading.get_ident()), done)
    async with asyncio.timeout(TIMEOUT_S):
        await ended.wait()
    assert len(set(places)) == 2
    assert places[1] == threading.get_ident()


async def test_an_error_is_told_and_the_thread_goes_on() -> None:
    pool, failure = Threads(), OSError("no disk")

    def fail() -> None:
        raise failure

    assert await outcome(pool, fail) is failure
    assert await outcome(pool, lambda: None) is None
    assert alive(pool) == 1


async def test_threads_are_as_many_as_there_is_work_at_once_but_not_more() -> None:
    pool, gate = Threads(2), threading.Event()

    def wait() -> None:
        assert gate.wait(TIMEOUT_S)

    waiting = [asyncio.ensure_future(outcome(pool, wait)) for _ in range(5)]
    await asyncio.sleep(0)
    assert alive(pool) == 2
    gate.set()
    assert await asyncio.gather(*waiting) == [None] * 5
    for _ in range(5):
        await outcome(pool, lambda: None)
    assert alive(pool) == 2


def test_a_loop_that_is_closed_meanwhile_is_not_told() -> None:
    pool, gate = Threads(1), threading.Event()
    told: list[Exception | None] = []

    def wait() -> None:
        assert gate.wait(TIMEOUT_S)

    async def begin() -> None:
        pool.run(wait, told.append)

    asyncio.run(begin())
    gate.set()
    assert asyncio.run(outcome(pool, lambda: None)) is None  # by the same thread
    assert told == []


async def test_work_that_is_done_is_let_go() -> None:
    class Job:
        def run(self) -> None:
            pass

    pool, job = Threads(), Job()
    gone = weakref.ref(job)
    assert await outcome(pool, job.run) is None
    del job
    await outcome(pool, lambda: None)
    gc.collect()
    assert gone() is None


async def test_it_can_be_done_here() -> None:
    places: list[int] = []
    errors: list[Exception | None] = []
    threads.run_here(lambda: places.append(threading.get_ident()), errors.append)
    failure = OSError("no disk")

    def fail() -> None:
        raise failure

    threads.run_here(fail, errors.append)
    assert places == [threading.get_ident()]
    assert errors == [None, failure]
