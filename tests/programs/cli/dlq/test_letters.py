"""Finding dead letters on real nodes."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cli.dlq.letters import (
    NoDeadLetters,
    NotPenstock,
    dead_topic,
    dead_topics,
    open_runs,
)
from penstock.cli.shared.nodes import Place, Where
from penstock.cluster.errors import UnreachableError
from penstock.nsq.dead_letters.letters import Run
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.testing.daemons import run_nsqd, run_nsqlookupd
from tests.unit.cli.nodes_at_work import ask, consume, kill_letters, make, publish


async def test_topics_by_what_channels_send_there_and_by_name() -> None:
    with run_nsqd("--dead-letter-topic=%s-lost") as nsqd:
        place = Place(nsqd.http, nsqd.tcp)
        kill_letters(nsqd, "orders", "bill", [b"x", b"y"])
        make(nsqd, "clicks", "c")
        make(nsqd, "clicks-lost")  # no channel gives anything up: no dead letters go there
        make(nsqd, "old.dead")
        async with Where().asker() as asker:
            found = await dead_topics(asker, place)
            assert [topic.name for topic in found] == ["old.dead", "orders-lost"]
            (lost,) = await dead_topic(asker, [place], "orders-lost")
            assert await open_runs(asker, lost) == [Run(0, 2)]
            (old,) = await dead_topic(asker, [place], "old.dead")
            assert await open_runs(asker, old) == []


async def test_a_channel_tells_what_is_open() -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "t.dead", CHANNEL)
        publish(nsqd, "t.dead", [b"%d" % number for number in range(6)])
        consume(nsqd, "t.dead", CHANNEL, 2)
        async with Where().asker() as asker:
            (topic,) = await dead_topic(asker, [Place(nsqd.http)], "t.dead")
            async with asyncio.timeout(60):
                while await open_runs(asker, topic) != [Run(2, 6)]:
                    pass


async def test_what_is_not_there() -> None:
    async with Where().asker() as asker:
        with run_nsqd() as nsqd:
            place = Place(nsqd.http)
            make(nsqd, "t.dead")
            with pytest.raises(
                NoDeadLetters, match=r"^no topic 't' on .*; did you mean t\.dead\?$"
            ):
                await dead_topic(asker, [place], "t")
            ask(nsqd, "POST", "/topic/delete?topic=t.dead")
            with pytest.raises(NoDeadLetters, match=r"^no topic 't' on [^;]*$"):
                await dead_topic(asker, [place], "t")
        with pytest.raises(UnreachableError, match="cannot be reached"):
            await dead_topics(asker, Place("127.0.0.1:1"))
        with run_nsqlookupd() as other, pytest.raises(NotPenstock, match="has no dead letters"):
            await dead_topics(asker, Place(other.http))
