"""The consumers of both libraries against a scripted server."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

import pytest

from penstock.nsq.client.blocking import Consumer as BlockingConsumer
from penstock.nsq.client.blocking import Producer as BlockingProducer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError, NotConnected, SubFailed
from penstock.nsq.client.message import Message
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.events import Close, Finish, Nop, Ready, Subscribe
from penstock.testing.clock import FakeClock
from tests.programs.nsq.client.conftest import Shell, consume, until, work_until
from tests.unit.nsq.client.fakes import FakeNsqd, fake_http, fake_nsqd, lookup_answer
from tools.harness.ports import unused_address

POLL_OFTEN = Config(lookupd_poll_interval=0.05)


async def test_messages_that_arrived_together(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(*[b"%02d" % n for n in range(100)])
    bodies: list[bytes] = []
    async with consume(shell.consumer, nsqd, max_in_flight=100) as consumer:
        while len(bodies) < 100:
            delivery = await consumer.get_delivery(30)
            assert delivery.address == nsqd.address
            assert delivery.block.count == len(delivery)
            assert delivery.bodies() == [message.body for message in delivery.messages()]
            bodies += delivery.bodies()
            assert delivery.touch()
            assert delivery.finish()
            assert not delivery.finish()
            assert not delivery.requeue()
        await until(lambda: len(nsqd.finished) == 100)
        assert consumer.in_flight == 0
        assert await consumer.get_delivery(0.02) is None
        assert await consumer.get_delivery(0) is None
    assert bodies == [b"%02d" % n for n in range(100)]


async def test_deliveries_until_it_is_closed(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    bodies: list[bytes] = []
    async with consume(shell.consumer, nsqd) as consumer:
        async for delivery in consumer.deliveries():
            bodies += delivery.bodies()
            delivery.finish()
            if len(bodies) == 3:
                await consumer.close()
    assert bodies == [b"a", b"b", b"c"]
    await until(lambda: len(nsqd.finished) == 3)


async def test_close_gives_back_what_nobody_saw(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b", b"c")
    async with consume(shell.consumer, nsqd) as consumer:
        (await consumer.get(30)).finish()
    await until(lambda: len(nsqd.requeued) == 2)
    assert len(nsqd.finished) == 1
    await consumer.close()
    assert [late async for late in consumer] == []
    assert await consumer.get() is None


async def test_a_lost_node_is_found_again(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    async with consume(shell.consumer, nsqd) as consumer:
        held = await consumer.get(30)
        nsqd.drop_connections()
        await work_until(consumer, lambda: nsqd.count(Subscribe) == 2)
        nsqd.put(b"b")
        message = await consumer.get(30)
        assert message.body == b"b"
        assert message.finish()
        assert not held.finish()


async def test_a_refused_subscription(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.refusals["Subscribe"] = "E_SUB_FAILED SUB failed consumers for t:c exceeds limit of 1"
    async with consume(shell.consumer, nsqd) as consumer:
        with pytest.raises(SubFailed, match="exceeds limit"):
            await consumer.get(30)


async def test_heartbeats_and_errors(shell: Shell, nsqd: FakeNsqd) -> None:
    async with consume(shell.consumer, nsqd) as consumer:
        await work_until(consumer, lambda: nsqd.count(Ready) == 1)
        nsqd.send(frames.HEARTBEAT_FRAME)
        nsqd.send(frames.error("E_FIN_FAILED FIN x failed ID not in flight"))
        await work_until(consumer, lambda: nsqd.count(Nop) == 1)
        nsqd.put(b"a")
        (await consumer.get(30)).finish()


async def test_a_silent_server_is_left(
    shell: Shell, nsqd: FakeNsqd, caplog: pytest.LogCaptureFixture
) -> None:
    async with consume(shell.consumer, nsqd, heartbeat_interval=0.05) as consumer:
        await work_until(consumer, lambda: nsqd.count(Subscribe) >= 2)
    assert f"[t/c] ({nsqd.address}) IO error - silent for 0.1 s" in caplog.messages


async def test_nodes_by_lookup(shell: Shell, nsqd: FakeNsqd) -> None:
    with fake_http() as lookupd, fake_nsqd() as other:
        lookupd.json("/lookup", lookup_answer(nsqd.address, unused_address()))
        nsqd.put(b"a")
        lookupds = [unused_address(), lookupd.address]
        async with shell.consumer(
            "t", "c", lookupd_http_addresses=lookupds, max_in_flight=2, config=POLL_OFTEN
        ) as consumer:
            (await consumer.get(30)).finish()
            assert list(consumer.connections) == [nsqd.address]
            lookupd.json("/lookup", lookup_answer(other.address))
            nsqd.close()
            other.put(b"b")
            message = await consumer.get(30)
            assert message.body == b"b"
            assert list(consumer.connections) == [other.address]
            message.finish()


@pytest.mark.parametrize(
    ("status", "message"), [(404, "TOPIC_NOT_FOUND"), (500, "INTERNAL_ERROR")], ids=["404", "500"]
)
async def test_a_lookup_that_fails_is_tried_again_soon(
    shell: Shell, nsqd: FakeNsqd, status: int, message: str
) -> None:
    with fake_http() as lookupd:
        lookupd.json("/lookup", {"message": message}, status)
        lookupds = [lookupd.address]
        async with shell.consumer(
            "t", "c", lookupd_http_addresses=lookupds, config=POLL_OFTEN
        ) as consumer:
            await work_until(consumer, lambda: len(lookupd.requests) > 1)
            lookupd.json("/lookup", lookup_answer(nsqd.address))
            nsqd.put(b"a")
            (await consumer.get(30)).finish()


async def test_one_nsqlookupd_hangs_and_one_is_dead(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    with fake_http() as lookupd, socket.create_server(("127.0.0.1", 0)) as hanging:
        old = {"status_code": 200, "status_txt": "OK", "data": lookup_answer(nsqd.address)}
        lookupd.json("/lookup", old)
        lookupds = [f"127.0.0.1:{hanging.getsockname()[1]}", unused_address(), lookupd.address]
        config = Config(auth_secret="secret", lookupd_poll_timeout=30)
        async with shell.consumer(
            "t", "c", lookupd_http_addresses=lookupds, config=config
        ) as consumer:
            (await consumer.get(20)).finish()
        assert lookupd.headers[0]["Authorization"] == "Bearer secret"
        assert lookupd.headers[0]["Accept"] == "application/vnd.nsq; version=1.0"


async def test_required_nodes(shell: Shell) -> None:
    address = unused_address()
    async with shell.consumer("t", "c", nsqd_tcp_addresses=[address], required=True) as consumer:
        with pytest.raises(NotConnected) as caught:
            await consumer.get(30)
        assert caught.value.reason == f"dial tcp {address}: connect: connection refused"
        assert consumer.last_error is caught.value


async def test_what_can_be_seen(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.put(*[b"x"] * 10)
    async with consume(shell.consumer, nsqd) as consumer:
        assert consumer.connections == {}
        messages = [await consumer.get(30) for _ in range(10)]
        assert consumer.is_starved
        state = consumer.connections[nsqd.address]
        assert (state.ready, state.in_flight, state.messages) == (10, 10, 10)
        assert consumer.backoff == (0, 0)
        assert consumer.last_error is None
        for answered, message in enumerate(messages, 1):
            assert message.finish()
            assert consumer.in_flight == 10 - answered
        consumer.max_in_flight = 0
        assert consumer.max_in_flight == 0
        await until(lambda: nsqd.last_ready == 0)
        with pytest.raises(ValueError, match="negative"):
            consumer.max_in_flight = -1


# --- the blocking one alone


def let_work_until(consumer: BlockingConsumer, condition: Callable[[], object]) -> None:
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
        with BlockingConsumer("t", "c", nsqd_tcp_addresses=addresses, config=config) as consumer:
            assert consumer.get(30) is not None


def test_a_connection_lost_while_answering_is_replaced(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a", b"b")
    with consume(BlockingConsumer, nsqd) as consumer:
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
    with consume(BlockingConsumer, nsqd) as consumer:
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
    with BlockingConsumer(
        "t", "c", nsqd_tcp_addresses=nodes, max_in_flight=2, clock=clock
    ) as consumer:
        messages = iter(consumer)
        assert next(messages).finish()
        assert next(messages).body == b"slow"  # and now it is worked at
        nsqd.wait(lambda: len(nsqd.finished) == 1)


def test_fins_of_many_quick_messages_go_out_together(nsqd: FakeNsqd) -> None:
    nsqd.put(*[b"x"] * 400)
    with BlockingConsumer(
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
    with consume(BlockingConsumer, nsqd) as consumer:
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
    consumer = consume(BlockingConsumer, nsqd, backoff_multiplier=0.01)
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
    consumer = consume(BlockingConsumer, nsqd)
    let_work_until(consumer, lambda: nsqd.count(Ready))
    nsqd.silent = True
    consumer.close(grace=0.02)
    assert not consumer.connections
    consumer.work()
    nsqd.wait(lambda: not nsqd._sessions)


def test_a_connection_that_comes_about_after_the_end_is_closed(nsqd: FakeNsqd) -> None:
    nsqd.silent = True
    consumer = consume(BlockingConsumer, nsqd)
    assert consumer.get(0.02) is None
    nsqd.wait(lambda: nsqd.asked)
    consumer.close()
    assert nsqd._sessions
    nsqd.send(frames.response(b"{}") + frames.OK_FRAME)
    nsqd.wait(lambda: not nsqd._sessions)


def test_leaving_a_server_that_complains(nsqd: FakeNsqd) -> None:
    nsqd.refusals["Close"] = "E_INVALID cannot CLS in current state"
    with consume(BlockingConsumer, nsqd) as consumer:
        let_work_until(consumer, lambda: nsqd.count(Ready))
    nsqd.wait(lambda: not nsqd._sessions)


# --- clients whose process is forked


# Python 3.12 and newer warn of forks beside threads, and the server has some.
beside_threads = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@beside_threads
def test_a_forked_process_and_its_parent_have_connections_of_their_own(nsqd: FakeNsqd) -> None:
    with BlockingProducer(nsqd.address) as producer:
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


@beside_threads
def test_a_forked_process_leaves_the_consumer_to_its_parent(nsqd: FakeNsqd) -> None:
    nsqd.put(b"a")
    with BlockingConsumer(
        "t", "c", nsqd_tcp_addresses=[nsqd.address], max_in_flight=10
    ) as consumer:
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
