"""A topic between its consumer and its files: what is finished, when, and what is given back."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.core.units import HOUR, MILLISECOND
from penstock.nsq.client import Consumer
from penstock.nsq.client.errors import ClientError, NotConnected
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.run import Stop
from penstock.nsq.tools.to_file.filename import Filenames
from penstock.nsq.tools.to_file.options import ToFileFlags
from penstock.nsq.tools.to_file.topic import Topic
from penstock.nsq.tools.to_file.topic_files import Writer
from penstock.testing.clock import FakeClock


class FakeDelivery:
    """Messages, and how they were answered."""

    def __init__(self, *bodies: bytes) -> None:
        self._bodies = list(bodies)
        self.answer = ""
        self.answered = asyncio.Event()

    def bodies(self) -> list[bytes]:
        return self._bodies

    def finish(self) -> bool:
        return self._settle("finished")

    def requeue(self, delay: float, backoff: bool) -> bool:
        return self._settle(f"requeued {delay:g}, backoff {backoff}")

    def _settle(self, answer: str) -> bool:
        assert not self.answer, "answered twice"
        self.answer = answer
        self.answered.set()
        return True


class FakeConsumer:
    """Hands out what the test puts in, until it is closed."""

    def __init__(self) -> None:
        self.is_starved = False
        self.grace: list[float] = []
        self._queue: asyncio.Queue[FakeDelivery | Exception | None] = asyncio.Queue()
        self._handled: asyncio.Queue[FakeDelivery] = asyncio.Queue()

    def put(self, *items: FakeDelivery | Exception) -> None:
        for item in items:
            self._queue.put_nowait(item)

    async def __aenter__(self) -> FakeConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def deliveries(self) -> AsyncIterator[FakeDelivery]:
        while (item := await self._queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
            self._handled.put_nowait(item)

    async def handled(self, count: int) -> None:
        """Until so many deliveries have been dealt with."""
        for _ in range(count):
            await self._handled.get()

    async def close(self, grace: float = 30.0) -> None:
        self.grace.append(grace)
        self._queue.put_nowait(None)


class Stage:
    """A topic under test, running."""

    def __init__(self, home: Path, *, sync_interval: int = HOUR, **options: Any) -> None:
        self.home = home
        self.said: list[tuple[int, str]] = []
        self.consumer = FakeConsumer()
        self.stop = Stop()
        flags = ToFileFlags(
            output_dir=str(home), work_dir=str(home), filename_format="a<REV>.log", **options
        )
        names = Filenames(flags.layout, "", topic="t", host="h", pid=1, suffix=flags.suffix)
        self.writer = Writer(flags, names, FakeClock(), self.say)
        self.topic = Topic(
            cast(Consumer, self.consumer), self.writer, sync_interval=sync_interval, say=self.say
        )

    def say(self, level: int, text: str) -> None:
        self.said.append((level, text.replace(f"{self.home}/", "")))

    async def run(self) -> None:
        async with asyncio.timeout(30):
            await self.topic.run(self.stop)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.home.iterdir())

    def text(self) -> str:
        return (self.home / "a.log").read_text()


def failing(number: int) -> Any:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


async def test_messages_wait_for_the_sync_and_are_finished_at_the_end(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    one, two = FakeDelivery(b"1"), FakeDelivery(b"2", b"3")
    stage.consumer.put(one, two)
    running = asyncio.ensure_future(stage.run())
    await one.answered.wait()
    await stage.consumer.handled(2)
    assert one.answer == "finished"
    assert two.answer == ""
    stage.stop.request()
    await running
    assert two.answer == "finished"
    assert stage.text() == "1\n2\n3\n"
    assert stage.consumer.grace[0] == 30.0


async def test_starved_means_now(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.consumer.is_starved = True
    deliveries = [FakeDelivery(b"%d" % number) for number in range(3)]
    stage.consumer.put(*deliveries)
    running = asyncio.ensure_future(stage.run())
    for delivery in deliveries:
        await delivery.answered.wait()
    stage.stop.request()
    await running
    assert [text for _, text in stage.said][1:] == ["syncing 1 records to disk"] * 3


async def test_a_delivery_is_finished_whole_when_all_of_it_is_durable(tmp_path: Path) -> None:
    stage = Stage(tmp_path, rotate_size=5)
    one, two = FakeDelivery(b"aaa", b"bbb", b"ccc", b"ddd"), FakeDelivery(b"eee")
    stage.consumer.put(one)
    running = asyncio.ensure_future(stage.run())
    await stage.consumer.handled(1)
    assert stage.writer.durable == 3
    await stage.topic.close()  # waits for its turn
    assert one.answer == "finished"
    stage.consumer.put(two)
    stage.stop.request()
    await running


async def test_ticks_sync(tmp_path: Path) -> None:
    stage = Stage(tmp_path, sync_interval=5 * MILLISECOND)
    one, two = FakeDelivery(b"1"), FakeDelivery(b"2")
    stage.consumer.put(one, two)
    running = asyncio.ensure_future(stage.run())
    await two.answered.wait()
    assert not stage.stop.requested
    stage.stop.request()
    await running


async def test_hang_up_syncs_closes_and_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path, gzip=True)
    one, two, three = FakeDelivery(b"1"), FakeDelivery(b"2"), FakeDelivery(b"3")
    stage.consumer.put(one, two)
    running = asyncio.ensure_future(stage.run())
    await stage.consumer.handled(2)
    await stage.topic.hang_up()
    assert two.answer == "finished"
    stage.consumer.put(three)
    await three.answered.wait()
    stage.stop.request()
    await running
    assert stage.names() == [
        "a-000000.log.gz",
        "a-000001.log.gz",
    ]


async def test_what_comes_after_the_signal_is_written_and_finished(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    late = [FakeDelivery(b"late"), FakeDelivery(b"later")]
    close = stage.consumer.close

    async def slow_close(grace: float = 30.0) -> None:
        if not stage.consumer.grace:
            stage.consumer.put(*late)
        await close(grace)

    stage.consumer.close = slow_close  # type: ignore[method-assign]
    stage.stop.request()
    await stage.run()
    assert [one.answer for one in late] == ["finished"] * 2
    assert stage.text() == "late\nlater\n"


async def test_a_full_disk_is_said_once_and_nothing_unsynced_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path)
    one, two, three = FakeDelivery(b"1"), FakeDelivery(b"2"), FakeDelivery(b"3")
    stage.consumer.put(one, two)
    running = asyncio.ensure_future(stage.run())
    await stage.consumer.handled(2)
    monkeypatch.setattr(os, "write", failing(errno.ENOSPC))
    stage.consumer.put(three)
    with pytest.raises(ToolError) as caught:
        await running
    assert (str(caught.value), caught.value.code) == ("", 1), "said already"
    assert [one.answer, two.answer, three.answer] == [
        "finished",
        "requeued 0, backoff False",
        "requeued 0, backoff False",
    ]
    assert [text for level, text in stage.said if level == logging.CRITICAL] == [
        "writing message to disk: write a.log: no space left on device"
    ]
    assert stage.consumer.grace[0] == 0.0


async def test_a_sync_that_fails_at_the_end_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path)
    one, two = FakeDelivery(b"1"), FakeDelivery(b"2")
    stage.consumer.put(one, two)
    running = asyncio.ensure_future(stage.run())
    await stage.consumer.handled(2)
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    stage.stop.request()
    with pytest.raises(ToolError):
        await running
    assert two.answer == "requeued 0, backoff False"


async def test_a_tick_that_fails_ends_the_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, sync_interval=5 * MILLISECOND)
    monkeypatch.setattr(os, "open", failing(errno.EROFS))
    with pytest.raises(ToolError):
        await stage.run()
    text = "unable to open a.log: open a.log: read-only file system"
    assert stage.said == [(logging.CRITICAL, text)]


@pytest.mark.parametrize(
    "error", [NotConnected("127.0.0.1:1", "dial tcp 127.0.0.1:1: refused"), ClientError("no")]
)
async def test_a_refusal_is_raised_after_all_is_finished(
    tmp_path: Path, error: ClientError
) -> None:
    stage = Stage(tmp_path)
    one, two = FakeDelivery(b"1"), FakeDelivery(b"2")
    stage.consumer.put(one, two, error)
    with pytest.raises(ClientError) as caught:
        await stage.run()
    assert caught.value is error
    assert two.answer == "finished"


async def test_cancelled_it_gives_back_what_is_not_durable(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    one, two = FakeDelivery(b"1"), FakeDelivery(b"2")
    stage.consumer.put(one, two)
    running = asyncio.ensure_future(stage.run())
    await stage.consumer.handled(2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [one.answer, two.answer] == ["finished", "requeued 0, backoff False"]
    assert stage.consumer.grace[0] == 0.0
