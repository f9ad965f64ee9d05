"""The blocking producer with real servers."""

from __future__ import annotations

import random
import socket
import time
from contextlib import suppress

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.client import Message, Received, SendFailed, TransactionState
from penstock.rocketmq.client.blocking import LitePullConsumer, Producer
from penstock.rocketmq.client.errors import BadMessage, NotConnected
from tests.unit.rocketmq.leaping import Leaping
from tools.harness.rocketmq.servers import QUICK, SECONDS, Servers, run_servers


def bodies(servers: Servers, topic: str, count: int) -> list[bytes]:
    """The bodies of ``count`` messages of a topic."""
    found: list[bytes] = []
    with LitePullConsumer(f"G-{topic}", servers.address, config=QUICK) as consumer:
        consumer.subscribe(topic)
        while len(found) < count:
            more = consumer.poll(timeout=60)
            assert more, f"all that comes: {found}"
            found += [message.body for message in more]
    return sorted(found)


def test_all_ways_of_sending(servers: Servers) -> None:
    with Producer("PG", servers.address, config=QUICK) as producer:
        producer.send(Message("Ways", b"1"))
        producer.send_batch([Message("Ways", b"2"), Message("Ways", b"3")])
        producer.send_one_way(Message("Ways", b"4"))
        outcomes = [producer.send_soon(Message("Ways", b"%d" % n)) for n in range(5, 9)]
        assert producer.pending
        assert outcomes[0].result().offset_id
        producer.flush()
        assert all(outcome.done() for outcome in outcomes)
        queues = producer.queues("Ways")
        assert producer.send(Message("Ways", b"9"), queue=queues[1]).queue == queues[1]
    assert bodies(servers, "Ways", 9) == [b"%d" % n for n in range(1, 10)]


def test_a_body_that_packing_makes_longer_than_a_broker_takes(servers: Servers) -> None:
    noise = random.Random(7).randbytes(QUICK.max_message_size)
    with Producer("PG", servers.address, config=QUICK) as producer:
        producer.send(Message("Noise", noise))
    assert bodies(servers, "Noise", 1) == [noise]


def test_a_failure_of_send_soon_is_raised_by_flush(servers: Servers) -> None:
    with Producer("PG", servers.address, config=QUICK) as producer:
        producer.send_soon(Message("T", b""))
        with pytest.raises(BadMessage):
            producer.flush()
        producer.flush()


def until_answered(producer: Producer, address: str) -> None:
    """Wait until the answer to a send has come from a server, and leave it unread."""
    (link,) = (each for each in producer._hub._links.values() if each.wire.address == address)
    said, ends = b"", time.monotonic() + SECONDS
    while b"msgId" not in said:
        assert time.monotonic() < ends, said
        with suppress(BlockingIOError):
            said = link.socket.recv(1 << 16, socket.MSG_PEEK)
        time.sleep(0.01)


def test_no_send_is_late_because_the_program_did_something_else(servers: Servers) -> None:
    clock = Leaping()
    with Producer("PG", servers.address, config=QUICK, clock=clock) as producer:
        outcome = producer.send_soon(Message("Pauses", b"not sent, nor is there a connection"))
        clock.ahead_ns += 100 * SECOND
        assert outcome.result().offset_id
        outcome = producer.send_soon(Message("Pauses", b"not sent"))
        clock.ahead_ns += 100 * SECOND
        assert outcome.result().offset_id
        outcome = producer.send_soon(Message("Pauses", b"answered, but nobody has looked"))
        producer._hub._flush_all()
        until_answered(producer, servers.broker.rocketmq)
        clock.ahead_ns += 100 * SECOND
        assert outcome.result().offset_id


def test_transactions_and_their_checks(servers: Servers) -> None:
    checked: list[bytes] = []

    def check(message: Received) -> TransactionState:
        checked.append(message.body)
        return TransactionState.COMMIT

    with Producer("BTG", servers.address, config=QUICK, on_check=check) as producer:
        producer.send_in_transaction(Message("BTx", b"1"), lambda _: TransactionState.COMMIT)
        producer.send_in_transaction(Message("BTx", b"2"), lambda _: TransactionState.UNKNOWN)
        ends = time.monotonic() + SECONDS
        while b"2" not in checked:  # of the other it asks, too, if that is not ended at once
            assert time.monotonic() < ends, checked
            producer.work(0.1)
        producer.work()
    assert bodies(servers, "BTx", 2) == [b"1", b"2"]


def test_a_lost_broker_is_connected_to_again() -> None:
    with run_servers() as servers, Producer("PG", servers.address, config=QUICK) as producer:
        producer.send(Message("T", b"1"))
        servers.broker.kill()
        with pytest.raises(SendFailed) as failed:
            producer.send(Message("T", b"2"))
        assert {type(error) for error in failed.value.errors} == {NotConnected}
        servers.broker.start()
        producer.send(Message("T", b"3"))
