"""Finding dead letters on real nodes."""

from __future__ import annotations

import pytest

from penstock.cli.dlq.letters import NoDeadLetters, dead_topic, dead_topics, open_runs, read
from penstock.cli.nodes import NodeError, NotPenstock, Place
from penstock.nsq.dead_letters.runs import Run
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.testing.daemons import run_nsqd, run_nsqlookupd
from tests.unit.cli.nodes_at_work import ask, consume, kill_letters, make, publish


def test_topics_by_what_channels_send_there_and_by_name() -> None:
    with run_nsqd("--dead-letter-topic=%s-lost") as nsqd:
        place = Place(nsqd.http, nsqd.tcp)
        kill_letters(nsqd, "orders", "bill", [b"x", b"y"])
        make(nsqd, "clicks", "c")
        make(nsqd, "clicks-lost")  # no channel gives anything up: no dead letters go there
        make(nsqd, "old.dead")
        assert [topic.name for topic in dead_topics(place)] == ["old.dead", "orders-lost"]
        (lost,) = dead_topic([place], "orders-lost")
        assert open_runs(lost) == [Run(0, 2)]
        assert [letter.body for letter in read(lost, [Run(1, 2)])] == [b"y"]
        assert open_runs(dead_topic([place], "old.dead")[0]) == []


def test_a_channel_tells_what_is_open() -> None:
    with run_nsqd() as nsqd:
        place = Place(nsqd.http)
        make(nsqd, "t.dead", CHANNEL)
        publish(nsqd, "t.dead", [b"%d" % number for number in range(6)])
        consume(nsqd, "t.dead", CHANNEL, 2)
        while open_runs(dead_topic([place], "t.dead")[0]) != [Run(2, 6)]:
            pass
        (topic,) = dead_topic([place], "t.dead")
        assert topic.channel is not None


def test_what_is_not_there() -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "t.dead")
        with pytest.raises(NoDeadLetters, match=r"^no topic 't' on .*; did you mean t\.dead\?$"):
            dead_topic([Place(nsqd.http)], "t")
        ask(nsqd, "POST", "/topic/delete?topic=t.dead")
        with pytest.raises(NoDeadLetters, match=r"^no topic 't' on [^;]*$"):
            dead_topic([Place(nsqd.http)], "t")
    with pytest.raises(NodeError, match="cannot be reached"):
        dead_topics(Place("127.0.0.1:1"))
    with run_nsqlookupd() as other, pytest.raises(NotPenstock, match=r"has no dead letters$"):
        dead_topics(Place(other.http))
