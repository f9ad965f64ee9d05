"""Where syncs run, on a clock of their own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.core.units import SECOND
from penstock.node.sync_place import SHORT_NS, SyncPlace
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S


class Disk:
    """Its syncs take so long."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.place = SyncPlace(self.clock)
        self.takes_ns = SHORT_NS // 2
        self.error: Exception | None = None

    async def sync(self, after_ns: int = SECOND, *, may_wait: bool = True) -> bool:
        """A sync, so long after the last; whether it ran in the loop."""
        self.clock.advance(after_ns)
        ran_in: list[int] = []
        told = asyncio.get_running_loop().create_future()

        def work() -> None:
            ran_in.append(threading.get_ident())
            self.clock.advance(self.takes_ns)
            if self.error is not None:
                raise self.error

        self.place.run(work, told.set_result, may_wait=may_wait)
        in_loop = told.done()
        assert await asyncio.wait_for(told, TIMEOUT_S) is self.error
        assert in_loop == (ran_in == [threading.get_ident()])
        return in_loop

    async def until_in_loop(self) -> int:
        """How many syncs ran in threads before those in the loop."""
        count = 0
        while not await self.sync():
            count += 1
            assert count < 200
        for _ in range(10):
            assert await self.sync()
        return count


@pytest.fixture
def disk() -> Disk:
    return Disk()


async def test_in_the_loop_once_the_disk_is_known_to_be_fast(disk: Disk) -> None:
    assert 20 < await disk.until_in_loop() < 100


async def test_who_may_not_wait_has_a_thread(disk: Disk) -> None:
    await disk.until_in_loop()
    assert not await disk.sync(may_wait=False)
    assert await disk.sync()


async def test_one_that_takes_very_long_is_the_last_in_the_loop_for_some_time(disk: Disk) -> None:
    await disk.until_in_loop()
    disk.takes_ns = 2 * SHORT_NS
    assert await disk.sync()  # one that is a little longer means nothing yet
    disk.takes_ns = 100 * SHORT_NS
    assert await disk.sync()
    disk.takes_ns = SHORT_NS // 2
    assert 10 < await disk.until_in_loop() < 50


async def test_a_slow_disk_is_never_waited_for_in_the_loop(disk: Disk) -> None:
    disk.takes_ns = 2 * SHORT_NS
    assert not any([await disk.sync() for _ in range(150)])


async def test_the_loop_has_as_long_for_others_between_two(disk: Disk) -> None:
    await disk.until_in_loop()
    assert not await disk.sync(disk.takes_ns - 1)
    await disk.until_in_loop()
    assert await disk.sync(disk.takes_ns)


@pytest.mark.parametrize("may_wait", [True, False])
async def test_an_error_is_told(disk: Disk, may_wait: bool) -> None:
    await disk.until_in_loop()
    disk.error = OSError("no such disk")
    assert await disk.sync(may_wait=may_wait) == may_wait
