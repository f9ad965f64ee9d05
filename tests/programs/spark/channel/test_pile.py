"""Messages that wait for their file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.nsq.client.blocking import Consumer
from penstock.spark.channel.pile import FILED, Pile, record_batch
from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import channel, create, publish, wait_until


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        create(daemon, "t", "c")
        yield daemon


@contextmanager
def piled(nsqd: Daemon, bodies: list[bytes]) -> Iterator[Pile]:
    """A pile of all these, in flight."""
    publish(nsqd, "t", bodies)
    pile = Pile()
    with Consumer("t", "c", nsqd_tcp_addresses=[nsqd.tcp], max_in_flight=2500) as consumer:
        while pile.rows < len(bodies):
            delivery = consumer.get_delivery(30)
            assert delivery is not None
            pile.add(delivery, now_ns=7 if pile.rows else 3)
        yield pile


def test_a_batch_has_what_a_consumer_sees(nsqd: Daemon) -> None:
    bodies = [b"x" * (number % 7 + 1) for number in range(500)]
    with piled(nsqd, bodies) as pile:
        assert pile.since_ns == 3
        assert pile.nbytes == sum(map(len, bodies)) + 34 * len(bodies)
        deliveries = pile.take()
        messages = [message for each in deliveries for message in each.messages()]
        batch = record_batch(deliveries)
    assert (pile.rows, pile.nbytes) == (0, 0)
    assert tuple(batch.schema.names) == FILED
    assert batch.column("body").to_pylist() == bodies
    assert batch.column("id").to_pylist() == [message.id.decode() for message in messages]
    assert set(batch.column("attempts").to_pylist()) == {1}
    assert set(batch.column("node").to_pylist()) == {nsqd.tcp}
    micros = batch.column("timestamp").cast("int64").to_pylist()
    assert micros == [message.timestamp_ns // 1000 for message in messages]


def test_what_is_given_back_comes_at_once_to_others(nsqd: Daemon) -> None:
    with piled(nsqd, [b"a", b"b"]) as pile:
        pile.give_back()
        wait_until(
            lambda: channel(nsqd, "t", "c")["requeue_count"] == 2,
            lambda: str(channel(nsqd, "t", "c")),
        )


def test_what_a_lost_connection_brought_is_left_out(nsqd: Daemon) -> None:
    publish(nsqd, "t", [b"a"])
    pile = Pile()
    with Consumer("t", "c", nsqd_tcp_addresses=[nsqd.tcp]) as consumer:
        delivery = consumer.get_delivery(30)
        assert delivery is not None
        pile.add(delivery, 0)
        nsqd.kill()
        wait_until(lambda: _lost(consumer), lambda: "the connection is still there")
        assert pile.take() == []
        nsqd.start()


def _lost(consumer: Consumer) -> bool:
    consumer.work()
    return not consumer.connections
