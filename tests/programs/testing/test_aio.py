"""Context managers in threads, and a daemon among them."""

from __future__ import annotations

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


async def test_a_daemon() -> None:
    async with in_thread(run_nsqd()) as nsqd:
        async with Producer(nsqd.tcp) as producer:
            await producer.publish("t", b"x")
        pid = nsqd.pid
        assert pid
