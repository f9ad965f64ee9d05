from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from penstock.net.tasks import spawn


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
