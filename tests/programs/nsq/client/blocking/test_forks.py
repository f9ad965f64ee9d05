"""Clients whose process is forked, against a scripted server."""

from __future__ import annotations

import os

import pytest

from penstock.nsq.client.blocking import Consumer, Producer
from penstock.nsq.client.errors import ClientError
from penstock.nsq.protocol.events import Close, Subscribe
from tests.unit.nsq.client.fakes import FakeNsqd

# Python 3.12 and newer warn of forks beside threads, and the server has some.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_a_forked_process_and_its_parent_have_connections_of_their_own(nsqd: FakeNsqd) -> None:
    with Producer(nsqd.address) as producer:
        producer.publish("t", b"before")
        outcome = producer.publish_soon("t", b"soon")
        child = os.fork()
        if not child:
            told = ""
            try:
                outcome.result()
            except ClientError as error:
                told = str(error)
            producer.publish("t", b"child's")
            producer.close()
            os._exit(0 if "before the process was forked" in told else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        outcome.result()
        producer.publish("t", b"after")
    assert [bodies for _, bodies in nsqd.published] == [
        [b"before"], [b"child's"], [b"soon"], [b"after"],
    ]  # fmt: skip


def test_a_forked_process_leaves_the_consumer_to_its_parent(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    with Consumer("t", "c", nsqd_tcp_addresses=[nsqd.address], max_in_flight=10) as consumer:
        message = consumer.get(30)
        assert message is not None
        child = os.fork()
        if not child:
            told = ""
            try:
                message.finish()
                consumer.get(0)
            except ClientError as error:
                told = str(error)
            consumer.close()
            os._exit(0 if "make one in each process" in told else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        nsqd.put(b"b")
        other = consumer.get(30)
        assert other is not None
        assert (nsqd.finished, nsqd.count(Close)) == ([], 0)
        assert message.finish()
        assert other.finish()
        nsqd.wait(lambda: len(nsqd.finished) == 2)
        assert nsqd.count(Subscribe) == 1
