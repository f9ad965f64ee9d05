"""Group commit over a disk that hangs: publishes wait until it answers."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import (
    DiskHangsError,
)
from penstock.node import commits
from penstock.node.commits import Commits
from penstock.storage.durability import Durability
from penstock.storage.files.patient_disk import Hand
from penstock.testing.disk import FaultyFile

from .conftest import Bench


class Hanging:
    """Group commit whose disk hangs between ``freeze`` and ``thaw``, and answers by ``hand``."""

    def __init__(self, bench: Bench, patch: pytest.MonkeyPatch) -> None:
        self.bench, self._patch, self._append = bench, patch, FaultyFile.append
        self.hand = Hand()
        bench.commits = Commits(SYSTEM_CLOCK, Durability.WRITE, sync_every=10_000, hand=self.hand)

    def freeze(self) -> None:
        def hang(file: FaultyFile, data: bytes | memoryview) -> None:
            raise DiskHangsError(f"{file.path}: the disk has not answered for 0.3 s")

        self._patch.setattr(FaultyFile, "append", hang)

    async def answer(self) -> None:
        for answer in self.hand.answers:
            answer()
        for _ in range(2):
            await asyncio.sleep(0)

    async def thaw(self) -> None:
        self._patch.setattr(FaultyFile, "append", self._append)
        await self.answer()


@pytest.fixture
async def hanging(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Hanging:
    return Hanging(bench, monkeypatch)


async def test_publishes_wait_for_a_disk_that_hangs_and_keep_their_order(
    bench: Bench, hanging: Hanging
) -> None:
    offsets = bench.consume()
    hanging.freeze()
    for name in ("a", "b"):
        bench.publish(name)
    await asyncio.sleep(0)
    bench.publish("c")
    bench.publish("d", bench.broker.topic("another"))
    await asyncio.sleep(0)
    await hanging.answer()  # and it hangs again
    bench.publish("e")
    assert (bench.told, offsets, bench.commits.health) == ([], [], None)
    assert not bench.topic.joins, "what was encoded is joined by none"
    await hanging.thaw()
    await bench.until_told(5)
    assert sorted(bench.told) == [(name, None) for name in "abcde"]
    assert [name for name, _ in bench.told if name != "d"] == list("abce")
    assert offsets == [0, 1, 2, 3]
    assert bench.topic.joins


async def test_a_disk_that_was_looked_at_alone_has_nothing_to_catch_up_on(
    bench: Bench, hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await hanging.answer()
    assert caplog.messages == []
    bench.publish("a")
    await bench.until_told(1)


async def test_a_topic_that_is_occupied_while_its_publishes_wait_loses_none(
    bench: Bench, hanging: Hanging
) -> None:
    """A large write may begin while the disk hangs, and end before or after it answers."""
    hanging.freeze()
    bench.publish("a")
    await asyncio.sleep(0)
    bench.commits.occupy(bench.topic)
    bench.publish("b")
    await asyncio.sleep(0)
    bench.commits.vacate(bench.topic)  # given up, as the disk hangs still
    bench.commits.occupy(bench.topic)
    await hanging.thaw()
    assert bench.told == [], "nothing may come between a large write"
    bench.commits.append(bench.topic, lambda: None, lambda error: bench.told.append(("1", error)))
    bench.commits.vacate(bench.topic)
    assert bench.told == [(name, None) for name in "1ab"]
    bench.publish("c")
    await bench.until_told(4)


async def test_what_waits_for_the_disk_is_bounded(
    bench: Bench, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "HELD_UP_BYTES_MAX", 8)
    hanging.freeze()
    bench.publish("12345")
    await asyncio.sleep(0)
    bench.publish("678")
    bench.publish("9")
    bench.publish("another", bench.broker.topic("another"))  # the first of its topic
    await asyncio.sleep(0)
    refused = "t: the disk does not answer, and 8 bytes wait for it"
    assert [(name, str(error)) for name, error in bench.told] == [("9", refused)]
    await hanging.thaw()
    await bench.until_told(4)
    assert sorted(name for name, error in bench.told if error is None) == [
        "12345", "678", "another"]  # fmt: skip
    hanging.freeze()
    bench.publish("87654321")
    await asyncio.sleep(0)
    assert len(bench.told) == 4, "as much may wait again"
    await hanging.thaw()
    await bench.until_told(5)


@pytest.mark.parametrize("whose", ["answer", "settle", "settle the topic"])
async def test_who_brings_it_to_rest_waits_for_the_disk(
    bench: Bench, hanging: Hanging, whose: str
) -> None:
    hanging.freeze()
    bench.publish("a")
    await asyncio.sleep(0)
    topic = bench.topic if whose == "settle the topic" else None
    commits = bench.commits
    ending = asyncio.ensure_future(commits.answer() if whose == "answer" else commits.settle(topic))
    await commits.settle(bench.broker.topic("another"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not ending.done()
    await hanging.thaw()
    await ending
    assert bench.told == [("a", None)]


async def test_a_sync_that_a_disk_which_hangs_does_not_begin_is_made_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(Durability.MEMORY)
    hanging = Hanging(bench, monkeypatch)
    bench.commits = Commits(SYSTEM_CLOCK, Durability.MEMORY, 10_000, hand=hanging.hand)
    bench.publish("a")
    await bench.until_told(1)
    hanging.freeze()
    bench.commits.sync(bench.topic)
    assert bench.commits.health is None, "the disk itself says how long it hangs"
    assert bench.topic.log.unsynced_messages == 1
    await hanging.thaw()
    bench.commits.sync(bench.topic)
    await bench.commits.settle()
    assert bench.topic.log.unsynced_messages == 0
