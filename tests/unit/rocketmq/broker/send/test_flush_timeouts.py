from __future__ import annotations

import asyncio

from penstock.core.clock import SYSTEM_CLOCK
from penstock.rocketmq.broker.send.flush_timeouts import FlushTimeouts


class Sending:
    def __init__(self) -> None:
        self.is_answered = False
        self.timed_out = asyncio.Event()

    def flush_timed_out(self) -> None:
        self.is_answered = True
        self.timed_out.set()


def test_only_what_waits_too_long_is_answered() -> None:
    async def story() -> None:
        timeouts = FlushTimeouts(SYSTEM_CLOCK, 20)
        quick, slow, later = Sending(), Sending(), Sending()
        for sending in (quick, slow):
            timeouts.watch(sending)
        quick.is_answered = True
        async with asyncio.timeout(30):
            await slow.timed_out.wait()
            timeouts.watch(later)
            await later.timed_out.wait()
        assert not quick.timed_out.is_set()

    asyncio.run(story())


def test_what_was_answered_is_let_go() -> None:
    async def story() -> None:
        timeouts = FlushTimeouts(SYSTEM_CLOCK, 60_000)
        for _ in range(1000):
            sending = Sending()
            timeouts.watch(sending)
            sending.is_answered = True
        assert len(timeouts._waiting) <= 2
        assert timeouts._timer is not None
        timeouts._timer.cancel()

    asyncio.run(story())
