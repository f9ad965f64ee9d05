"""nsq_to_file: which topics are written, what is finished and when, its flags."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Warnings
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.core.units import HOUR, MILLISECOND
from penstock.nsq.client import Config, Consumer
from penstock.nsq.client.errors import ClientError, NotConnected
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.lifecycle import Stop
from penstock.nsq.tools.to_file.command_line import ToFileFlags, parse_options
from penstock.nsq.tools.to_file.discovery import Topics
from penstock.nsq.tools.to_file.filename import Filenames
from penstock.nsq.tools.to_file.pattern import check_pattern, matcher
from penstock.nsq.tools.to_file.rotation import Rotation
from penstock.nsq.tools.to_file.topic import Topic
from penstock.nsq.tools.to_file.topic_files import Writer
from penstock.testing.clock import FakeClock

# --- a topic between its consumer and its files


NSQD = "--nsqd-tcp-address=127.0.0.1:4150"
LOOKUPD = "--lookupd-http-address=127.0.0.1:4161"
TOPIC = "--topic=t"


GIVEN_BACK = "requeued 0, backoff False"


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

    async def running(self, *deliveries: FakeDelivery) -> asyncio.Future[None]:
        """Let it run until it has dealt with these."""
        self.consumer.put(*deliveries)
        task = asyncio.ensure_future(self.run())
        await self.consumer.handled(len(deliveries))
        return task

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
    running = await stage.running(one, two)
    assert (one.answer, two.answer) == ("finished", "")
    stage.stop.request()
    await running
    assert two.answer == "finished"
    assert stage.text() == "1\n2\n3\n"
    assert stage.consumer.grace[0] == 30.0


@pytest.mark.parametrize("starved", [True, False])
async def test_starved_or_at_a_tick_means_now(tmp_path: Path, starved: bool) -> None:
    stage = Stage(tmp_path, sync_interval=HOUR if starved else 5 * MILLISECOND)
    stage.consumer.is_starved = starved
    deliveries = [FakeDelivery(b"%d" % number) for number in range(3)]
    running = await stage.running(*deliveries)
    for delivery in deliveries:
        await delivery.answered.wait()
    assert not stage.stop.requested
    stage.stop.request()
    await running
    said = [text for _, text in stage.said][1:]
    assert not starved or said == ["syncing 1 records to disk"] * 3


async def test_a_delivery_is_finished_whole_when_all_of_it_is_durable(tmp_path: Path) -> None:
    stage = Stage(tmp_path, rotate_size=5)
    one, two = FakeDelivery(b"aaa", b"bbb", b"ccc", b"ddd"), FakeDelivery(b"eee")
    running = await stage.running(one)
    assert stage.writer.durable == 3
    await stage.topic.close()  # waits for its turn
    assert one.answer == "finished"
    stage.consumer.put(two)
    stage.stop.request()
    await running


async def test_hang_up_syncs_closes_and_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path, gzip=True)
    one, two, three = FakeDelivery(b"1"), FakeDelivery(b"2"), FakeDelivery(b"3")
    running = await stage.running(one, two)
    await stage.topic.close_file()
    assert two.answer == "finished"
    stage.consumer.put(three)
    await three.answered.wait()
    stage.stop.request()
    await running
    assert stage.names() == ["a-000000.log.gz", "a-000001.log.gz"]


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
    running = await stage.running(one, two)
    monkeypatch.setattr(os, "write", failing(errno.ENOSPC))
    stage.consumer.put(three)
    with pytest.raises(ToolError) as caught:
        await running
    assert (str(caught.value), caught.value.code) == ("", 1), "said already"
    assert [one.answer, two.answer, three.answer] == ["finished", GIVEN_BACK, GIVEN_BACK]
    assert [text for level, text in stage.said if level == logging.CRITICAL] == [
        "writing message to disk: write a.log: no space left on device"
    ]
    assert stage.consumer.grace[0] == 0.0


async def test_a_sync_that_fails_at_the_end_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path)
    one, two = FakeDelivery(b"1"), FakeDelivery(b"2")
    running = await stage.running(one, two)
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    stage.stop.request()
    with pytest.raises(ToolError):
        await running
    assert two.answer == GIVEN_BACK


async def test_a_tick_that_fails_ends_the_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, sync_interval=5 * MILLISECOND)
    monkeypatch.setattr(os, "open", failing(errno.EROFS))
    with pytest.raises(ToolError):
        await stage.run()
    text = "unable to open a.log: open a.log: read-only file system"
    assert stage.said == [(logging.CRITICAL, text)]


async def test_a_refusal_is_raised_after_all_is_finished(tmp_path: Path) -> None:
    stage, error = Stage(tmp_path), NotConnected("127.0.0.1:1", "dial tcp 127.0.0.1:1: refused")
    one, two = FakeDelivery(b"1"), FakeDelivery(b"2")
    stage.consumer.put(one, two, error)
    with pytest.raises(ClientError) as caught:
        await stage.run()
    assert caught.value is error
    assert two.answer == "finished"


async def test_cancelled_it_gives_back_what_is_not_durable(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    one, two = FakeDelivery(b"1"), FakeDelivery(b"2")
    running = await stage.running(one, two)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [one.answer, two.answer] == ["finished", GIVEN_BACK]
    assert stage.consumer.grace[0] == 0.0


# --- which topics are written


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[list[str] | NoAnswerError]:
    """What nsqlookupd answers, one after another."""
    found: list[list[str] | NoAnswerError] = []
    remaining: Iterator[list[str] | NoAnswerError] = iter(found)

    async def topics(self: Cluster, warnings: Warnings) -> list[str]:
        assert self.addresses.lookupds == ("127.0.0.1:4161",)
        answer = next(remaining)
        if isinstance(answer, NoAnswerError):
            raise answer
        return answer

    monkeypatch.setattr(Cluster, "topics", topics)
    return found


class Discovering:
    """Topics at work until ``stop``."""

    def __init__(self, flags: ToFileFlags, group: asyncio.TaskGroup) -> None:
        self.stop = Stop()
        self.topics = Topics(flags, Config(), self.stop, group)


@pytest.fixture
def discovering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Discovering]:
    """Topics that do nothing and wait for the end; `refused` cannot be consumed."""

    async def run(self: Topic, stop: Stop) -> None:
        if self._consumer.topic == "refused":
            raise NotConnected("127.0.0.1:1", "dial tcp 127.0.0.1:1: connect: connection refused")
        await stop.wait()

    monkeypatch.setattr(Topic, "run", run)
    return lambda group, *flags: Discovering(
        parse_options([f"--output-dir={tmp_path}", *flags]), group
    )


async def test_each_topic_is_started_once_and_bad_ones_are_told(
    discovering: Callable[..., Discovering], caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.TaskGroup() as group:
        stage = discovering(group, "--topic=a", NSQD)
        stage.topics.start(["a", "b", "bad!", "refused", "a"])
        assert len(stage.topics) == 3
        await asyncio.sleep(0)
        assert len(stage.topics) == 2, "one could not be consumed"
        stage.stop.request()
    assert len(stage.topics) == 0
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, f"couldn't create logger for new topic {name}")
        for name in ("bad!: invalid topic name",
                     "refused: dial tcp 127.0.0.1:1: connect: connection refused")
    ]  # fmt: skip


async def test_a_pattern_filters_those_that_are_named_too(
    discovering: Callable[..., Discovering], caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.TaskGroup() as group:
        stage = discovering(group, "--topic=tf", NSQD, "--topic-pattern=^zz")
        stage.topics.start(["tf"])
        assert len(stage.topics) == 0
    assert caplog.messages == ["skipping topic tf (doesn't match pattern ^zz)"]


async def test_discovery_asks_after_each_refresh_and_survives_failures(
    discovering: Callable[..., Discovering],
    answers: list[list[str] | NoAnswerError],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers += [["ta", "xa"], NoAnswerError("failed to query any nsqlookupd"), ["ta", "tb"]]
    started: list[list[str]] = []
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        stage = discovering(group, LOOKUPD, "--topic-pattern=^t", "--topic-refresh=1ms")
        start = stage.topics.start

        def noted(names: Any) -> None:
            start(names)
            started.append(sorted(stage.topics._running))
            if len(started) == 2:
                stage.stop.request()

        monkeypatch.setattr(stage.topics, "start", noted)
        await stage.topics.discover()
    assert started == [["ta"], ["ta", "tb"]]
    assert caplog.messages == [
        "skipping topic xa (doesn't match pattern ^t)",
        "could not retrieve topic list: failed to query any nsqlookupd",
    ]


async def test_nothing_is_asked_before_the_first_refresh(
    discovering: Callable[..., Discovering], answers: list[list[str] | NoAnswerError]
) -> None:
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        stage = discovering(group, LOOKUPD, "--topic-pattern=.")
        asyncio.get_running_loop().call_later(0.02, stage.stop.request)
        await stage.topics.discover()  # an answer would be missing


async def test_hang_up_reaches_every_topic(
    discovering: Callable[..., Discovering], monkeypatch: pytest.MonkeyPatch
) -> None:
    hung_up = []

    async def close_file(self: Topic) -> None:
        hung_up.append(self._consumer.topic)

    monkeypatch.setattr(Topic, "close_file", close_file)
    async with asyncio.TaskGroup() as group:
        stage = discovering(group, "--topic=a", NSQD)
        stage.topics.start(["a", "b"])
        stage.topics.close_file()
        await asyncio.sleep(0)
        stage.stop.request()
    assert hung_up == ["a", "b"]


# --- flags


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ([TOPIC, NSQD, "--max-in-flight=0"], "--max-in-flight should be positive"),
        ([TOPIC, NSQD, "--sync-interval=0s"], "--sync-interval should be positive"),
        (["--topic-pattern=.", LOOKUPD, "--topic-refresh=0s"], "--topic-refresh should be"),
        ([TOPIC, NSQD, "--channel=bad!"], "invalid channel name"),
        (
            ["--http-client-request-timeout=-1s", "--http-client-connect-timeout=0s"],
            "--http-client-connect-timeout should be positive",
        ),
        (["--topic-pattern=(", LOOKUPD], 'invalid --topic-pattern "("'),
        ([TOPIC, NSQD, "--gzip", "--filename-format=x"], "missing <REV> in --filename-format"),
        ([TOPIC, NSQD, "--rotate-size=1", "--filename-format=x"], "missing <REV>"),
        ([TOPIC, NSQD, "--rotate-interval=1s", "--filename-format=x"], "missing <REV>"),
        ([TOPIC, NSQD, "--work-dir=/w", "--filename-format=x"], "missing <REV>"),
    ],
)
def test_what_cannot_work_is_refused_at_once(flags: list[str], text: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_options(flags)
    assert str(caught.value).startswith(text)
    assert caught.value.code == 1


def test_the_same_directory_in_other_words_is_no_work_directory(tmp_path: Path) -> None:
    flags = parse_options([TOPIC, NSQD, f"--output-dir={tmp_path}", f"--work-dir={tmp_path}/x/../"])
    assert not flags.moves
    assert not flags.has_revisions
    assert parse_options(
        [TOPIC, NSQD, f"--output-dir={tmp_path}", f"--work-dir={tmp_path}/x"]
    ).moves


def test_what_follows_from_the_options() -> None:
    flags = parse_options([TOPIC, NSQD, "--gzip", "--rotate-size=5", "--rotate-interval=1h"])
    assert flags.rotation == Rotation(5, HOUR)
    assert flags.exclusive
    assert flags.layout == "<TOPIC>.<HOST><REV>.<DATETIME>.log"
    assert flags.suffix == ".gz"
    assert not parse_options([TOPIC, NSQD, "--rotate-size=5"]).exclusive


# --- --topic-pattern


@pytest.mark.parametrize("pattern", ["", "b", r"c$", r"\w+", "(?i)ABC"])
def test_it_is_searched_anywhere(pattern: str) -> None:
    check_pattern(pattern)
    assert matcher(pattern)("abc")
    assert not matcher("^b")("abc")


@pytest.mark.parametrize(
    ("pattern", "end"),
    [("(", ""), (r"(a)\1", ""), ("(?=a)", ""), (os.fsdecode(b"x\xe9"), ": invalid UTF-8")],
)
def test_what_re2_does_not_know_is_refused(
    pattern: str, end: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ToolError, match=f"invalid --topic-pattern .*{end}$"):
        check_pattern(pattern)
    assert capfd.readouterr() == ("", "")
