"""The blocking consumer against a scripted server."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest

from penstock.nsq.client.blocking import Consumer
from penstock.nsq.client.config import Config
from penstock.nsq.client.message import Message
from penstock.nsq.protocol.events import Finish, Ready, Subscribe
from penstock.testing.clock import FakeClock
from tests.programs.nsq.client.conftest import consume
from tests.unit.nsq.client.fakes import (
    FakeNsqd,
)


def work_until(consumer: Consumer, condition: Callable[[], object]) -> None:
    for _ in range(6000):
        if condition():
            return
        assert consumer.get_delivery(0.005) is None
    raise AssertionError("it does not come to that")


def test_a_node_that_hangs_holds_up_nobody(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        addresses = [f"127.0.0.1:{hanging.getsockname()[1]}", nsqd.address]
        config = Config(read_timeout=60)
        with Consumer("t", "c", nsqd_tcp_addresses=addresses, config=config) as consumer:
            assert consumer.get(30) is not None


def test_a_connection_lost_while_answering_is_replaced(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b")
    with consume(Consumer, nsqd) as consumer:
        held = consumer.get(30)
        assert held is not None
        (connection,) = consumer._replies
        connection.close()
        assert not held.finish()
        nsqd.wait(lambda: not nsqd._sessions)
        nsqd.put(b"c")
        while (message := consumer.get(30)) is not None and message.body != b"c":
            pass
        assert message is not None
        assert nsqd.count(Subscribe) == 2


def test_deliveries_can_be_given_back(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b")
    with consume(Consumer, nsqd) as consumer:
        first = consumer.get_delivery(30)
        assert first is not None
        assert first.requeue(0.02, backoff=False)
        nsqd.wait(lambda: [delay for _, delay in nsqd.requeued] == [20] * len(first))
        nsqd.put(b"c")
        nsqd.wait(lambda: not nsqd._queue)
    # What arrived and was not asked for goes back when the consumer leaves.
    nsqd.wait(lambda: len(nsqd.requeued) == 3)


def test_a_fin_does_not_wait_for_the_next_message_to_be_done(nsqd: FakeNsqd) -> None:
    nsqd.put(b"quick", b"slow")
    nodes, clock = [nsqd.address], FakeClock()  # which stands still: the first was very quick
    with Consumer("t", "c", nsqd_tcp_addresses=nodes, max_in_flight=2, clock=clock) as consumer:
        messages = iter(consumer)
        assert next(messages).finish()
        assert next(messages).body == b"slow"  # and now it is worked at
        nsqd.wait(lambda: len(nsqd.finished) == 1)


def test_fins_of_many_quick_messages_go_out_together(nsqd: FakeNsqd) -> None:
    nsqd.put(*[b"x"] * 400)
    with Consumer(
        "t", "c", nsqd_tcp_addresses=[nsqd.address], max_in_flight=400, clock=FakeClock()
    ) as consumer:
        for count, message in enumerate(consumer, 1):
            message.finish()
            if count == 400:
                break
        nsqd.wait(lambda: len(nsqd.finished) == 400)
    assert nsqd.count(Finish) < 300


def test_fins_of_a_loop_go_out_together_and_soon(nsqd: FakeNsqd) -> None:
    nsqd.put(*[b"x"] * 10)
    with consume(Consumer, nsqd) as consumer:
        for count, message in enumerate(consumer, 1):
            message.finish()
            if count == 5:
                time.sleep(0.002)  # a message that takes its time, the next after it is not held up
            if count == 6:
                nsqd.wait(lambda: len(nsqd.finished) >= 5)
            if count == 10:
                break
        nsqd.wait(lambda: len(nsqd.finished) == 10)


def test_handlers(nsqd: FakeNsqd, caplog: pytest.LogCaptureFixture) -> None:
    nsqd.put(b"bad")
    nsqd.put(b"spent", attempts=6)
    nsqd.put(b"last")
    given_up: list[bytes] = []
    seen: list[bytes] = []
    consumer = consume(Consumer, nsqd, backoff_multiplier=0.01)
    consumer.on_give_up = lambda message: given_up.append(message.body)

    def handle(message: Message) -> None:
        seen.append(message.body)
        if message.body == b"bad":
            raise ValueError("no sense in it")
        if message.body == b"last":
            message.finish()
            consumer.close()

    consumer.run(handle)
    assert (seen, given_up) == ([b"bad", b"last"], [b"spent"])
    nsqd.wait(lambda: len(nsqd.finished) == 2)
    assert nsqd.requeued == [(b"0000000000000001", 90_000)]
    line = "[t/c] Handler returned error (no sense in it) for msg 0000000000000001"
    assert line in caplog.messages
    assert "[t/c] msg 0000000000000002 attempted 6 times, giving up" in caplog.messages


def test_close_does_not_wait_for_a_node_that_hangs(nsqd: FakeNsqd) -> None:
    consumer = consume(Consumer, nsqd)
    work_until(consumer, lambda: nsqd.count(Ready))
    nsqd.silent = True
    consumer.close(grace=0.02)
    assert not consumer.connections
    consumer.work()
    nsqd.wait(lambda: not nsqd._sessions)


def test_leaving_a_server_that_complains(nsqd: FakeNsqd) -> None:
    nsqd.refusals["Close"] = "E_INVALID cannot CLS in current state"
    with consume(Consumer, nsqd) as consumer:
        work_until(consumer, lambda: nsqd.count(Ready))
    nsqd.wait(lambda: not nsqd._sessions)
