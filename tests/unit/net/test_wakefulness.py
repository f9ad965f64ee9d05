"""The time-outs with which an event loop looks at its sockets."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from itertools import takewhile

from penstock.net.wakefulness import PASSES, Wakefulness


class WatchedSelector(selectors.DefaultSelector):
    """Notes how long each look at the sockets may wait."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: list[float | None] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.timeouts.append(timeout)
        return super().select(timeout)


def looks_before_sleep(work: Callable[[Wakefulness], None]) -> int:
    """Let a loop that has nothing else to do run ``work``; count its looks before it sleeps."""
    selector = WatchedSelector()

    async def main() -> None:
        work(Wakefulness(asyncio.get_running_loop()))
        selector.timeouts.clear()
        await asyncio.sleep(0.05)

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
