"""The blocking consumer against a scripted server."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.nsq.client.blocking import Consumer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import NotConnected, SubFailed
from penstock.nsq.client.message import Message
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.events import Close, Finish, Nop, Ready, Subscribe, Touch
from penstock.testing.clock import FakeClock
from tests.unit.nsq.client.fakes import (
    FakeNsqd,
    fake_http,
    fake_nsqd,
    lookup_answer,
)
from tools.harness.ports import unused_address


@pytest.fixture
def nsqd() -> Iterator[FakeNsqd]:
    with fake_nsqd() as server:
        yield server


POLL_OFTEN = Config(lookupd_poll_interval=0.05)


def consume(nsqd: FakeNsqd, max_in_flight: int = 10, **options: Any) -> Consumer:
    return Consumer(
        "t",
        "c",
        nsqd_tcp_addresses=[nsqd.address],
        config=Config(max_in_flight=max_in_flight, **options),
        reconnect_delay=0.01,
    )


def work_until(consumer: Consumer, condition: Callable[[], object]) -> None:
    for _ in range(6000):
        if condition():
            return
        assert consumer.get_delivery(0.005) is None
    raise AssertionError("it does not come to that")


def test_messages_one_by_one(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    with consume(nsqd) as consumer:
        bodies = []
        for message in consumer:
            bodies.append(message.body)
            assert message.finish()
            if len(bodies) == 3:
                break
        nsqd.wait(lambda: len(nsqd.finished) == 3)
    assert bodies == [b"a", b"b", b"c"]
    assert Subscribe("t", "c") in nsqd.asked
    assert nsqd.count(Close) == 1


def test_many_at_once(nsqd: FakeNsqd) -> None:
    nsqd.put(*[b"x" * 20] * 100)
    with consume(nsqd, max_in_flight=100) as consumer:
        seen = 0
        while seen < 100:
            delivery = consumer.get_delivery(30)
            assert delivery is not None
            assert delivery.bodies() == [b"x" * 20] * len(delivery)
            assert delivery.block.count == len(delivery)
            assert delivery.touch()
            assert delivery.finish()
            assert not delivery.finish()
            assert not delivery.requeue()
            seen += len(delivery)
        nsqd.wait(lambda: len(nsqd.finished) == 100)
        assert consumer.in_flight == 0


def test_requeue_and_touch(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    with consume(nsqd) as consumer:
        message = consumer.get(30)
        assert message is not None
        assert message.touch()
        assert message.requeue(0.25)
        nsqd.wait(lambda: nsqd.requeued == [(message.id, 250)])
        assert nsqd.count(Touch) == 1


def test_waiting_ends(nsqd: FakeNsqd) -> None:
    with consume(nsqd) as consumer:
        assert consumer.get(0.05) is None
        assert consumer.get_delivery(0) is None
        work_until(consumer, lambda: list(consumer.connections) == [nsqd.address])


def test_no_more_than_wanted_in_flight(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    with consume(nsqd, max_in_flight=2) as consumer:
        first = consumer.get(30)
        assert first is not None
        assert consumer.get(30) is not None
        assert consumer.get(0.05) is None
        first.finish()
        third = consumer.get(30)
        assert third is not None
        assert third.body == b"c"
    assert [event.count for event in nsqd.asked if isinstance(event, Ready)] == [2]


def test_ready_is_capped_by_the_server() -> None:
    with fake_nsqd(max_rdy_count=5) as nsqd, consume(nsqd, max_in_flight=100) as consumer:
        work_until(consumer, lambda: Ready(5) in nsqd.asked)


def test_close_gives_back_what_nobody_saw(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    with consume(nsqd) as consumer:
        seen = consumer.get(30)
        assert seen is not None
        seen.finish()
    nsqd.wait(lambda: len(nsqd.requeued) == 2)
    assert len(nsqd.finished) == 1
    consumer.close()
    assert list(consumer) == []


def test_two_nodes_share_what_may_be_in_flight(nsqd: FakeNsqd) -> None:
    with fake_nsqd() as other:
        addresses = [nsqd.address, other.address]
        with Consumer("t", "c", nsqd_tcp_addresses=addresses, max_in_flight=5) as consumer:
            nsqd.put(b"a")
            other.put(b"b")
            bodies: set[bytes] = set()
            while len(bodies) < 2:
                message = consumer.get(30)
                assert message is not None
                bodies.add(message.body)
                message.finish()
            for _ in range(2):  # which of them gets the odd one may change
                for one in (nsqd, other):
                    one.wait(lambda: {nsqd.last_ready, other.last_ready} == {2, 3})


def test_a_lost_node_is_found_again(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b")
    with consume(nsqd) as consumer:
        held = consumer.get(30)
        assert held is not None
        nsqd.drop_connections()
        nsqd.wait(lambda: not nsqd._sessions)
        nsqd.put(b"c")
        message = consumer.get(30)
        # b was on its way to us when the connection was lost, and is not handed out any more
        # unless it was already.
        while message is not None and message.body != b"c":
            message = consumer.get(30)
        assert message is not None
        assert message.finish()
        assert not held.finish()
        assert nsqd.count(Subscribe) == 2


def test_a_refused_subscription(nsqd: FakeNsqd) -> None:
    nsqd.refusals["Subscribe"] = "E_SUB_FAILED SUB failed consumers for t:c exceeds limit of 1"
    with consume(nsqd) as consumer, pytest.raises(SubFailed, match="exceeds limit"):
        consumer.get(30)


def test_error_frames_do_not_end_the_consumer(nsqd: FakeNsqd) -> None:
    with consume(nsqd) as consumer:
        work_until(consumer, lambda: nsqd.count(Ready))
        nsqd.send(frames.error("E_FIN_FAILED FIN x failed ID not in flight"))
        nsqd.send(frames.HEARTBEAT_FRAME)
        work_until(consumer, lambda: nsqd.count(Nop) == 1)
        nsqd.put(b"a")
        assert consumer.get(30) is not None


def test_nodes_by_lookup(nsqd: FakeNsqd) -> None:
    with fake_http() as lookupd:
        lookupd.json("/lookup", lookup_answer(nsqd.address, unused_address()))
        nsqd.put(b"a")
        with Consumer("t", "c", lookupd_http_addresses=[lookupd.address]) as consumer:
            message = consumer.get(30)
            assert message is not None
            assert message.finish()
            assert list(consumer.connections) == [nsqd.address]


def test_lookup_is_asked_again_when_a_node_is_lost(nsqd: FakeNsqd) -> None:
    with fake_http() as lookupd, fake_nsqd() as other:
        lookupd.json("/lookup", lookup_answer(nsqd.address))
        lookupds = [lookupd.address]
        with Consumer(
            "t", "c", lookupd_http_addresses=lookupds, max_in_flight=2, config=POLL_OFTEN
        ) as consumer:
            work_until(consumer, lambda: nsqd.count(Ready))
            lookupd.json("/lookup", lookup_answer(other.address))
            nsqd.close()
            other.put(b"b")
            message = consumer.get(30)
            assert message is not None
            assert message.body == b"b"
            assert list(consumer.connections) == [other.address]


def test_one_nsqlookupd_hangs_and_one_is_dead(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    with fake_http() as lookupd, socket.create_server(("127.0.0.1", 0)) as hanging:
        lookupd.json("/lookup", {"status_code": 200, "data": lookup_answer(nsqd.address)})
        lookupds = [f"127.0.0.1:{hanging.getsockname()[1]}", unused_address(), lookupd.address]
        config = Config(auth_secret="secret", lookupd_poll_timeout=30)
        with Consumer("t", "c", lookupd_http_addresses=lookupds, config=config) as consumer:
            message = consumer.get(20)
            assert message is not None
            message.finish()
        assert lookupd.headers[0]["Authorization"] == "Bearer secret"


def test_a_node_that_hangs_holds_up_nobody(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        addresses = [f"127.0.0.1:{hanging.getsockname()[1]}", nsqd.address]
        config = Config(read_timeout=60)
        with Consumer("t", "c", nsqd_tcp_addresses=addresses, config=config) as consumer:
            assert consumer.get(30) is not None


def test_a_silent_server_is_left(nsqd: FakeNsqd, caplog: pytest.LogCaptureFixture) -> None:
    with consume(nsqd, heartbeat_interval=0.05) as consumer:
        work_until(consumer, lambda: nsqd.count(Subscribe) >= 2)
    assert f"[t/c] ({nsqd.address}) IO error - silent for 0.1 s" in caplog.messages


def test_more_nodes_than_messages_wanted(nsqd: FakeNsqd) -> None:
    config = Config(low_rdy_idle_timeout=1, rdy_redistribute_interval=0.01)
    with fake_nsqd() as other:
        addresses = [nsqd.address, other.address]
        with Consumer("t", "c", nsqd_tcp_addresses=addresses, config=config) as consumer:
            nsqd.put(b"a")
            other.put(b"b")
            seen: set[bytes] = set()
            while len(seen) < 2:
                message = consumer.get(30)
                assert message is not None
                seen.add(message.body)
                message.finish()


def test_bad_addresses_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="port"):
        Consumer("t", "c", nsqd_tcp_addresses=["nowhere"])


def test_a_lookup_that_fails_is_tried_again_soon(nsqd: FakeNsqd) -> None:
    with fake_http() as lookupd:
        lookupd.json("/lookup", {"message": "INTERNAL_ERROR"}, 500)
        lookupds = [lookupd.address]
        with Consumer("t", "c", lookupd_http_addresses=lookupds, config=POLL_OFTEN) as consumer:
            work_until(consumer, lambda: len(lookupd.requests) > 1)
            lookupd.json("/lookup", lookup_answer(nsqd.address))
            nsqd.put(b"a")
            message = consumer.get(30)
            assert message is not None
            message.finish()


def test_a_connection_lost_while_answering_is_replaced(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b")
    with consume(nsqd) as consumer:
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
    with consume(nsqd) as consumer:
        first = consumer.get_delivery(30)
        assert first is not None
        assert first.requeue(0.02, backoff=False)
        nsqd.wait(lambda: [delay for _, delay in nsqd.requeued] == [20] * len(first))
        nsqd.put(b"c")
        nsqd.wait(lambda: not nsqd._queue)
    # What arrived and was not asked for goes back when the consumer leaves.
    nsqd.wait(lambda: len(nsqd.requeued) == 3)


def test_deliveries_until_it_is_closed(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    bodies: list[bytes] = []
    with consume(nsqd) as consumer:
        for delivery in consumer.deliveries():
            bodies += delivery.bodies()
            delivery.finish()
            if len(bodies) == 3:
                consumer.close()
    assert bodies == [b"a", b"b", b"c"]
    nsqd.wait(lambda: len(nsqd.finished) == 3)


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
    with consume(nsqd) as consumer:
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
    consumer = consume(nsqd, backoff_multiplier=0.01)
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


def test_required_nodes() -> None:
    address = unused_address()
    with Consumer("t", "c", nsqd_tcp_addresses=[address], required=True) as consumer:
        with pytest.raises(NotConnected) as caught:
            consumer.get(30)
        assert caught.value.reason == f"dial tcp {address}: connect: connection refused"


def test_what_can_be_seen(nsqd: FakeNsqd) -> None:
    nsqd.put(*[b"x"] * 10)
    with consume(nsqd) as consumer:
        message = consumer.get(30)
        assert message is not None
        while consumer.in_flight < 10:
            consumer.work()
        assert consumer.is_starved
        assert consumer.connections[nsqd.address].ready == 10
        assert message.finish()
        assert consumer.in_flight == 9
        consumer.max_in_flight = 0
        nsqd.wait(lambda: nsqd.last_ready == 0)
        assert consumer.backoff == (0, 0)


def test_close_does_not_wait_for_a_node_that_hangs(nsqd: FakeNsqd) -> None:
    consumer = consume(nsqd)
    work_until(consumer, lambda: nsqd.count(Ready))
    nsqd.silent = True
    consumer.close(grace=0.02)
    assert not consumer.connections
    consumer.work()
    nsqd.wait(lambda: not nsqd._sessions)


def test_leaving_a_server_that_complains(nsqd: FakeNsqd) -> None:
    nsqd.refusals["Close"] = "E_INVALID cannot CLS in current state"
    with consume(nsqd) as consumer:
        work_until(consumer, lambda: nsqd.count(Ready))
    nsqd.wait(lambda: not nsqd._sessions)
