"""The time-outs with which an event loop looks at its sockets."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Any

from penstock.net.wakefulness import CREDIT, PASSES, TRIED_EVERY, Wakefulness


class WatchedSelector(selectors.DefaultSelector):
    """Notes how long each look at the sockets may wait."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: list[float | None] = []
        self.asleep: Callable[[], object] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.timeouts.append(timeout)
        if timeout is None and self.asleep is not None:
            self.asleep()
            timeout, self.asleep = 0, None
        return super().select(timeout)


def looks_before_sleep(work: Callable[[Wakefulness], None]) -> int:
    """Let a loop that has nothing else to do run ``work``; count its looks before it sleeps."""
    selector = WatchedSelector()

    async def main() -> None:
        work(Wakefulness(asyncio.get_running_loop()))
        selector.timeouts.clear()
        asleep = asyncio.get_running_loop().create_future()
        selector.asleep = partial(asleep.set_result, None)
        await asleep

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(main())
    return len(list(takewhile(lambda timeout: timeout == 0, selector.timeouts)))


def test_an_idle_loop_sleeps() -> None:
    assert looks_before_sleep(lambda _: None) == 0


def test_a_loop_kept_awake_looks_for_some_passes_then_sleeps() -> None:
    assert looks_before_sleep(Wakefulness.extend) == PASSES


def test_extending_twice_in_a_pass_is_as_once() -> None:
    def twice(wakefulness: Wakefulness) -> None:
        wakefulness.extend()
        wakefulness.extend()

    assert looks_before_sleep(twice) == PASSES


def test_a_later_extension_counts_from_its_pass() -> None:
    def later(wakefulness: Wakefulness) -> None:
        wakefulness.extend()
        asyncio.get_running_loop().call_soon(wakefulness.extend)

    assert looks_before_sleep(later) == PASSES + 1


async def passes_taken(wakefulness: Wakefulness, times: int) -> int:
    """Of so many times that run out, those in which the loop stayed awake."""
    loop, taken = asyncio.get_running_loop(), 0
    for _ in range(times):
        before = loop.handles  # type: ignore[attr-defined]
        wakefulness.extend()
        taken += loop.handles > before  # type: ignore[attr-defined]
        for _ in range(PASSES + 1):
            await asyncio.sleep(0)
    return taken


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts what wakefulness asks for."""

    handles = 0

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        self.handles += getattr(callback, "__name__", "") == "_pass"
        return super().call_soon(callback, *args, context=context)


def test_a_loop_for_which_nothing_comes_rests_and_tries_now_and_then() -> None:
    async def main() -> tuple[int, int]:
        wakefulness = Wakefulness(asyncio.get_running_loop())
        return await passes_taken(wakefulness, CREDIT), await passes_taken(
            wakefulness, 4 * TRIED_EVERY
        )

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        assert runner.run(main()) == (CREDIT, 4)


def test_a_loop_for_which_something_comes_again_stays_awake_again() -> None:
    async def main() -> int:
        wakefulness = Wakefulness(asyncio.get_running_loop())
        await passes_taken(wakefulness, CREDIT + TRIED_EVERY - 1)
        for _ in range(CREDIT):  # the first is tried, and the others come in time
            wakefulness.extend()
            await asyncio.sleep(0)
        for _ in range(PASSES + 1):
            await asyncio.sleep(0)
        return await passes_taken(wakefulness, CREDIT - 1)

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        assert runner.run(main()) == CREDIT - 1
