from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from penstock.net import loop


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
