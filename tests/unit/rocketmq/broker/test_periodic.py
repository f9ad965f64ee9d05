"""Something that is done every so often."""

from __future__ import annotations

import asyncio

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
        async with asyncio.timeout(5):
            await seen.wait()
        await service.close()
        before = times
        await asyncio.sleep(0.01)
        assert times == before

    asyncio.run(run())
    assert times >= 3
