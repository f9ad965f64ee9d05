"""The event loop: signals, tasks, and threads beside it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

from penstock.net import loop, threads
from penstock.net.tasks import spawn
from penstock.net.threads import Threads


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Restore what uvloop's signal handlers leave behind, which a program that ends needs not."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(params=["", "asyncio"])
def _each_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LOOP", request.param)


@pytest.mark.usefixtures("_each_loop")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_ask_for_one_graceful_stop(number: int) -> None:
    steps = []

    async def main() -> int:
        os.kill(os.getpid(), number)
        await loop.stop_requested()
        steps.append("stopping")
        os.kill(os.getpid(), number)  # a second signal changes nothing
        await asyncio.sleep(0.02)
        steps.append("saved")
        return 3

    assert loop.run(main()) == 3
    assert steps == ["stopping", "saved"]


@pytest.mark.usefixtures("_each_loop")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_work_that_blocks_the_loop_is_interrupted(number: int) -> None:
    steps = []

    async def main() -> int:
        try:
            with loop.interruptible():
                os.kill(os.getpid(), number)
                for _ in range(10**9):  # the signal comes in between
                    pass
                steps.append("not interrupted")
        finally:
            steps.append("cleaned up")
        return 3

    assert loop.run(main()) == 0
    assert steps == ["cleaned up"]


def test_signals_are_the_loops_again_afterwards() -> None:
    async def main() -> int:
        with loop.interruptible():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        await loop.stop_requested()
        return 3

    assert loop.run(main()) == 3


async def test_outside_of_run_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with loop.interruptible():
        assert signal.getsignal(signal.SIGTERM) is before


def test_none_is_zero_and_request_stop_stops() -> None:
    async def main() -> None:
        loop.request_stop()
        await loop.stop_requested()

    assert loop.run(main()) == 0


def test_the_chosen_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> int:
        return int(type(asyncio.get_running_loop()).__module__.startswith("uvloop"))

    assert loop.run(main()) == 1
    monkeypatch.setenv("PENSTOCK_LOOP", "asyncio")
    assert loop.run(main()) == 0


async def test_stop_outside_of_run_is_refused() -> None:
    loop.request_stop()
    with pytest.raises(RuntimeError):
        await loop.stop_requested()


def test_exceptions_and_exits_pass() -> None:
    async def main() -> int:
        raise SystemExit(5)

    with pytest.raises(SystemExit) as caught:
        loop.run(main())
    assert caught.value.code == 5


async def test_a_role_is_over_once_the_next_one_serves() -> None:
    first = loop.Turn()
    first.serves()
    is_over = first.ask()
    second = loop.Turn(first)
    assert (first.is_first, second.is_first) == (True, False)
    assert (first.asked.is_set(), second.asked.is_set()) == (True, False)
    assert not is_over.done()
    second.serves()
    assert is_over.done()
    third = loop.Turn(second)
    third.serves()  # nobody has waited for it
    assert not third.asked.is_set()


async def test_result_and_name() -> None:
    async def answer() -> int:
        return 7

    task = spawn(answer(), "answer")
    assert task.get_name() == "answer"
    assert await task == 7


async def test_a_task_nobody_keeps_still_runs() -> None:
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        gc.collect()
        done.set()

    spawn(work(), "work")
    await asyncio.wait_for(done.wait(), 30)


async def test_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise KeyError("why")

    with caplog.at_level(logging.ERROR, "penstock"):
        task = spawn(fail(), "failing")
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert "task failing failed" in caplog.text
    assert "KeyError" in caplog.text


async def test_a_cancelled_task_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    task = spawn(asyncio.sleep(60), "sleeper")
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert caplog.text == ""


# --- Blocking work beside the loop ---------------------------------------------------------------


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
