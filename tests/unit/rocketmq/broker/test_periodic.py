"""Something that is done every so often."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.periodic import Periodic


def test_again_and_again_until_it_is_closed() -> None:
    times = 0

    async def run() -> None:
        seen = asyncio.Event()

        def work() -> None:
            nonlocal times
            times += 1
            if times == 3:
                seen.set()

        service = Periodic("test", 0.001, work)
        await service.close()
        service.start()
        async with asyncio.timeout(30):
            await seen.wait()
        await service.close()
        before = times
        await asyncio.sleep(0.01)
        assert times == before

    asyncio.run(run())
    assert times >= 3


def test_what_fails_has_its_turn_again(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[Exception] = [StorageError("the disk"), ValueError("a mistake")]

    async def run() -> None:
        seen = asyncio.Event()

        def work() -> None:
            if failures:
                raise failures.pop(0)
            seen.set()

        service = Periodic("test", 0.001, work)
        service.start()
        async with asyncio.timeout(30):
            await seen.wait()
        await service.close()

    asyncio.run(run())
    assert "test: the disk; trying again" in caplog.text
    assert "test failed, trying again" in caplog.text
