"""Which topics are written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster.cluster import Cluster
from penstock.cluster.errors import NoAnswerError
from penstock.cluster.fanout import Warnings
from penstock.nsq.client import Config
from penstock.nsq.client.errors import NotConnected
from penstock.nsq.tools.run import Stop
from penstock.nsq.tools.to_file.discovery import Topics
from penstock.nsq.tools.to_file.options import ToFileFlags, parse_options
from penstock.nsq.tools.to_file.topic import Topic

LOOKUPD = "127.0.0.1:4161"


@pytest.fixture(autouse=True)
def quiet_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics that wait for the end and do nothing; `refused` cannot be consumed."""

    async def run(self: Topic, stop: Stop) -> None:
        if self._consumer.topic == "refused":
            raise NotConnected("127.0.0.1:1", "dial tcp 127.0.0.1:1: connect: connection refused")
        await stop.wait()

    monkeypatch.setattr(Topic, "run", run)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[list[str] | NoAnswerError]:
    """What nsqlookupd answers, one after another."""
    found: list[list[str] | NoAnswerError] = []
    remaining: Iterator[list[str] | NoAnswerError] = iter(found)

    async def topics(self: Cluster, warnings: Warnings) -> list[str]:
        assert self.addresses.lookupds == (LOOKUPD,)
        answer = next(remaining)
        if isinstance(answer, NoAnswerError):
            raise answer
        return answer

    monkeypatch.setattr(Cluster, "topics", topics)
    return found


class Stage:
    """Topics at work until ``end``."""

    def __init__(self, flags: ToFileFlags, group: asyncio.TaskGroup) -> None:
        self.stop = Stop()
        self.topics = Topics(flags, Config(), self.stop, group)


def flags_of(tmp_path: Path, *more: str) -> ToFileFlags:
    return parse_options([f"--output-dir={tmp_path}", *more])


async def test_each_topic_is_started_once_and_bad_ones_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flags = flags_of(tmp_path, "--topic=a", "--nsqd-tcp-address=127.0.0.1:1")
    async with asyncio.TaskGroup() as group:
        stage = Stage(flags, group)
        stage.topics.start(["a", "b", "bad!", "refused", "a"])
        assert len(stage.topics) == 3
        await asyncio.sleep(0)
        assert len(stage.topics) == 2, "one could not be consumed"
        stage.stop.request()
    assert len(stage.topics) == 0
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, "couldn't create logger for new topic bad!: invalid topic name"),
        (
            logging.ERROR,
            "couldn't create logger for new topic refused:"
            " dial tcp 127.0.0.1:1: connect: connection refused",
        ),
    ]


async def test_a_pattern_filters_those_that_are_named_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flags = flags_of(
        tmp_path, "--topic=tf", "--nsqd-tcp-address=127.0.0.1:1", "--topic-pattern=^zz"
    )
    async with asyncio.TaskGroup() as group:
        stage = Stage(flags, group)
        stage.topics.start(flags.topics)
        assert len(stage.topics) == 0
    assert caplog.messages == ["skipping topic tf (doesn't match pattern ^zz)"]


async def test_discovery_asks_after_each_refresh_and_survives_failures(
    tmp_path: Path,
    answers: list[list[str] | NoAnswerError],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = flags_of(
        tmp_path,
        f"--lookupd-http-address={LOOKUPD}",
        "--topic-pattern=^t",
        "--topic-refresh=1ms",
    )
    answers += [["ta", "xa"], NoAnswerError("failed to query any nsqlookupd"), ["ta", "tb"]]
    started: list[list[str]] = []
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        stage = Stage(flags, group)
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
    tmp_path: Path, answers: list[list[str] | NoAnswerError]
) -> None:
    flags = flags_of(tmp_path, f"--lookupd-http-address={LOOKUPD}", "--topic-pattern=.")
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        stage = Stage(flags, group)
        asyncio.get_running_loop().call_later(0.02, stage.stop.request)
        await stage.topics.discover()  # an answer would be missing


async def test_hang_up_reaches_every_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung_up = []

    async def hang_up(self: Topic) -> None:
        hung_up.append(self._consumer.topic)

    monkeypatch.setattr(Topic, "hang_up", hang_up)
    flags = flags_of(tmp_path, "--topic=a", "--nsqd-tcp-address=127.0.0.1:1")
    async with asyncio.TaskGroup() as group:
        stage = Stage(flags, group)
        stage.topics.start(["a", "b"])
        stage.topics.hang_up()
        await asyncio.sleep(0)
        stage.stop.request()
    assert hung_up == ["a", "b"]
