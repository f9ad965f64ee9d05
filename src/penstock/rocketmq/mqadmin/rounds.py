"""Sub-commands that go on: a round, a pause, the next one, until they are interrupted."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.output import Output


async def every(
    admin: Admin, seconds: float, work: Callable[[], Awaitable[None]], out: Output
) -> None:
    """Do this again and again; in JSON each round is an object."""
    while True:
        await work()
        out.finish()
        sys.stdout.flush()
        await pause(admin, seconds)


async def pause(admin: Admin, seconds: float) -> None:
    """Wait until the next round."""
    await admin.hub.sleep(seconds)
