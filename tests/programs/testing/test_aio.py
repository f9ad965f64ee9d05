"""Context managers in threads, and a daemon among them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.nsq.client import Producer
from penstock.testing import in_thread, run_nsqd


async def test_both_ends_run_in_threads_and_errors_pass_through() -> None:
    seen: list[object] = []

    @contextmanager
    def manager() -> Iterator[int]:
        seen.append(threading.current_thread() is threading.main_thread())
        try:
            yield 7
        except KeyError as error:
            seen.append(error.args[0])
            raise
        finally:
            seen.append(threading.current_thread() is threading.main_thread())

    async with in_thread(manager()) as value:
        assert value == 7
    assert seen == [False, False]
    with pytest.raises(KeyError, match="mine"):
        async with in_thread(manager()):
            raise KeyError("mine")
    assert seen[2:] == [False, "mine", False]


async def test_what_begins_while_its_task_is_cancelled_is_ended() -> None:
    """The thread cannot be stopped: a daemon would be left running."""
    begins, goes_on = threading.Event(), threading.Event()
    seen: list[object] = []

    @contextmanager
    def manager() -> Iterator[int]:
        begins.set()
        goes_on.wait(60)
        try:
            yield 7
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            seen.append("ended")

    async def use() -> None:
        async with in_thread(manager()):
            seen.append("never")

    task = asyncio.create_task(use())
    await asyncio.to_thread(begins.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled", "ended"]


async def test_a_daemon() -> None:
    async with in_thread(run_nsqd()) as nsqd:
        async with Producer(nsqd.tcp) as producer:
            await producer.publish("t", b"x")
        pid = nsqd.pid
        assert pid
