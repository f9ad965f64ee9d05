"""Group commit that is brought to rest: settled, answered, and while a topic is occupied."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from penstock.broker.topic import Topic
from penstock.core.errors import (
    StorageError,
)
from penstock.node.commits import FEW
from penstock.nsq.protocol.bodies import Bodies
from penstock.testing.disk import FaultyFile
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S

from .benches import Bench, fsync


@fsync
async def test_settle_waits_for_all_that_is_owed(bench: Bench, gate: threading.Event) -> None:
    bench.publish("a")
    await asyncio.sleep(0.01)
    bench.publish("b")
    loop = asyncio.get_running_loop()
    release: Callable[[], None] = gate.set
    loop.call_later(0.02, release)
    await bench.commits.settle(bench.topic)
    assert bench.told == [("a", None), ("b", None)]


@fsync
async def test_settling_waits_for_nobody(bench: Bench, gate: threading.Event) -> None:
    await bench.publish_around_a_sync(gate)
    await bench.until_told(3)
    bench.publish("e")
    await bench.commits.settle()
    assert len(bench.told) == 5


async def test_publishes_to_an_occupied_topic_wait_and_others_do_not(
    bench: Bench, writes: list[str]
) -> None:
    other = bench.broker.topic("other")
    bench.commits.occupy(bench.topic)
    bench.publish("a")
    bench.publish("b", other)
    await asyncio.sleep(0)
    assert bench.told == [("b", None)]
    bench.publish("c")
    await asyncio.sleep(0)
    bench.commits.vacate(bench.topic)
    assert bench.told == [("b", None), ("a", None), ("c", None)]
    assert len(writes) == 2


async def test_what_is_appended_to_an_occupied_topic_comes_before_the_publishes_that_wait(
    bench: Bench,
) -> None:
    bench.commits.occupy(bench.topic)
    bench.publish("a")
    first = bench.topic.log.append_offset

    def write() -> None:
        assert bench.topic.log.append_offset == first

    bench.commits.append(bench.topic, write, lambda error: bench.told.append(("mine", error)))
    bench.commits.vacate(bench.topic)
    assert bench.told == [("mine", None), ("a", None)]


async def test_settling_waits_until_a_topic_is_occupied_no_more(bench: Bench) -> None:
    bench.commits.occupy(bench.topic)
    bench.publish("a")
    settling = [asyncio.ensure_future(bench.commits.settle(each)) for each in (None, bench.topic)]
    await bench.commits.settle(bench.broker.topic("other"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(each.done() for each in settling)
    bench.commits.vacate(bench.topic)
    await asyncio.gather(*settling)
    assert bench.told == [("a", None)]


@fsync
async def test_answering_all_ends_while_producers_publish_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node under load could not stop: a sync of one topic or another was always under way."""
    topics = [bench.topic, bench.broker.topic("u")]
    syncs, begun = {"t": 0, "u": 0}, threading.Condition()
    is_load = True
    sync = FaultyFile.sync

    def overlapping(file: FaultyFile) -> None:
        """End when one of the other topic has begun."""
        if file.path.endswith(".log"):
            own, other = ("t", "u") if "/t@0" in file.path else ("u", "t")
            with begun:
                syncs[own] += 1
                begun.notify_all()
                before = syncs[other]
                assert begun.wait_for(lambda: syncs[other] > before or not is_load, TIMEOUT_S)
        sync(file)

    def publish(topic: Topic) -> None:
        def done(error: StorageError | None) -> None:
            assert error is None
            if is_load:
                publish(topic)

        bench.commits.publish(topic, Bodies.single(b"x"), 0, done)

    monkeypatch.setattr(FaultyFile, "sync", overlapping)
    for topic in topics:
        for _ in range(2 * FEW):
            publish(topic)
    bench.publish("last")
    await asyncio.sleep(0)
    async with asyncio.timeout(TIMEOUT_S):
        await bench.commits.answer()
    assert bench.told == [("last", None)]
    is_load = False
    with begun:
        begun.notify_all()
    await bench.commits.settle()


async def test_answering_all_waits_for_an_occupied_topic(bench: Bench) -> None:
    bench.commits.occupy(bench.topic)
    bench.publish("a")
    answering = asyncio.ensure_future(bench.commits.answer())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not answering.done()
    bench.commits.vacate(bench.topic)
    await answering
    assert bench.told == [("a", None)]
