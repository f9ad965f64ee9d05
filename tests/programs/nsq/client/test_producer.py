"""The producers of both libraries: what goes out, and what failures make of it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, NoReturn, cast
from urllib.request import urlopen

import pytest

from penstock.core.errors import ConfigError
from penstock.nsq.client.aio import Producer
from penstock.nsq.client.aio.producer import UNANSWERED_MAX
from penstock.nsq.client.blocking import Producer as BlockingProducer
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import (
    BadMessage,
    BadTopic,
    ClientError,
    MpubFailed,
    NotConnected,
    PubFailed,
    Stopped,
    TimedOut,
)
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.events import Identify, Nop, Publish
from penstock.nsq.protocol.limits import Limits
from penstock.testing import Daemon, in_thread, run_nsqd
from penstock.testing.clock import FakeClock
from tests.programs.nsq.client.conftest import Shell, bodies, until
from tests.unit.nsq.client.fakes import FakeNsqd, fake_nsqd
from tools.harness.ports import unused_address

# --- both, against a scripted server


async def test_publish(shell: Shell, nsqd: FakeNsqd) -> None:
    async with shell.producer(nsqd.address) as producer:
        await producer.publish("t", b"one")
        await producer.multi_publish("t", [b"two", cast(bytes, bytearray(b"three"))])
        await producer.multi_publish("t", [])
        await producer.deferred_publish("t", 0.29, b"four")
        assert producer.pending == 0
    assert nsqd.published == [("t", [b"one"]), ("t", [b"two", b"three"]), ("t", [b"four"])]
    assert [e.delay_ns for e in nsqd.asked if isinstance(e, Publish)][-1] == 290_000_000


async def test_what_no_node_would_take_is_not_sent(shell: Shell, nsqd: FakeNsqd) -> None:
    async with shell.producer(nsqd.address) as producer:
        with pytest.raises(BadTopic, match=r'^E_BAD_TOPIC PUB topic name "t!" is not valid$'):
            await producer.publish("t!", b"x")
        with pytest.raises(BadMessage, match=r"^E_BAD_MESSAGE PUB invalid message body size 0$"):
            await producer.publish("t", b"")
        with pytest.raises(BadMessage, match="MPUB"):
            await producer.multi_publish("t", [b"x", b""])
        with pytest.raises(TypeError, match="bytes, not str"):
            await producer.publish("t", "text")
        assert producer.pending == 0
    assert nsqd.asked == []


async def test_a_refusal_is_named_for_its_code_and_the_producer_lives_on(
    shell: Shell, nsqd: FakeNsqd
) -> None:
    async with shell.producer(nsqd.address) as producer:
        nsqd.refusals["Publish"] = "E_PUB_FAILED PUB failed exiting"
        with pytest.raises(PubFailed):
            await producer.publish("t", b"x")
        nsqd.refusals.clear()
        await producer.publish("t", b"x")
    assert nsqd.published == [("t", [b"x"])]


async def test_flush_and_leaving_raise_what_outcomes_would(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.refuse = lambda bodies: "E_BAD_MESSAGE MPUB message too big" if b"big" in bodies else ""
    producer = shell.producer(nsqd.address)
    outcomes = [await producer.publish_soon("t", body) for body in (b"1", b"big", b"2")]
    with pytest.raises(BadMessage):
        await producer.flush()
    outcomes[0].result()
    with pytest.raises(BadMessage):
        outcomes[1].result()
    await producer.flush()
    assert bodies(nsqd) == [b"1", b"2"]
    with pytest.raises(BadMessage):
        async with producer:
            await producer.publish_soon("t", b"big")


async def test_big_lists_become_several_commands(shell: Shell, nsqd: FakeNsqd) -> None:
    async with shell.producer(nsqd.address, max_body_size=100) as producer:
        await producer.multi_publish("t", [b"%030d" % n for n in range(6)] + [b"x" * 200])
    assert [len(several) for _, several in nsqd.published] == [2, 2, 2, 1]


async def test_another_node_stands_in(shell: Shell, nsqd: FakeNsqd) -> None:
    with fake_nsqd() as other:
        async with shell.producer(unused_address(), nsqd.address, other.address) as producer:
            for n in range(9):
                await producer.publish("t", b"%d" % n)
        assert sorted(bodies(nsqd) + bodies(other)) == [b"%d" % n for n in range(9)]
        assert bodies(nsqd)
        assert bodies(other)


async def test_a_node_that_cannot_store_is_passed_over(shell: Shell, nsqd: FakeNsqd) -> None:
    with fake_nsqd() as other:
        nsqd.refusals["Publish"] = "E_PUB_FAILED PUB failed exiting"
        async with shell.producer(nsqd.address, other.address) as producer:
            for _ in range(3):
                await producer.publish("t", b"x")
            other.refusals["Publish"] = "E_MPUB_FAILED MPUB failed exiting"
            with pytest.raises((PubFailed, MpubFailed)):
                await producer.multi_publish("t", [b"1", b"2"])
            other.refusals["Publish"] = "E_PUB_FAILED PUB failed exiting"
            with pytest.raises(PubFailed):
                await producer.publish("t", b"1")
        assert len(bodies(other)) == 3


async def test_a_connection_lost_in_between_is_replaced(shell: Shell, nsqd: FakeNsqd) -> None:
    async with shell.producer(nsqd.address) as producer:
        await producer.publish("t", b"1")
        nsqd.drop_connections()
        nsqd.wait(lambda: not nsqd._sessions)
        await producer.publish("t", b"2")
    assert nsqd.published == [("t", [b"1"]), ("t", [b"2"])]


@pytest.mark.parametrize("resend", [True, False])
async def test_a_loss_before_the_answer(shell: Shell, nsqd: FakeNsqd, resend: bool) -> None:
    async with shell.producer(nsqd.address, resend=resend) as producer:
        await producer.publish("t", b"1")
        nsqd.silent = True
        second = asyncio.ensure_future(producer.publish("t", b"2"))
        await until(lambda: nsqd.count(Publish) == 2)
        nsqd.silent = False
        nsqd.drop_connections()
        if resend:
            await second
        else:
            with pytest.raises(NotConnected):
                await second
    assert bodies(nsqd) == ([b"1", b"2"] if resend else [b"1"])


async def test_nobody_there(shell: Shell) -> None:
    address = unused_address()
    async with shell.producer(address) as producer:
        for tried in (lambda: producer.publish("t", b"1"), producer.ping):
            with pytest.raises(NotConnected, match=address):
                await tried()


async def test_a_host_whose_name_has_an_empty_part(shell: Shell) -> None:
    async with shell.producer("nsqd..example.com:4150") as producer:
        for _ in range(2):
            with pytest.raises(NotConnected, match=r"lookup nsqd\.\.example\.com: no such host"):
                async with asyncio.timeout(30):
                    await producer.publish("t", b"x")


async def test_ping_finds_a_node_that_is_there(shell: Shell, nsqd: FakeNsqd) -> None:
    async with shell.producer(unused_address(), nsqd.address) as producer:
        await producer.ping()
        await until(lambda: nsqd.count(Nop) == 1)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (frames.response(b"WHAT"), "unexpected answer to a publish"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "E_BAD_FRAME"),
    ],
    ids=["frame", "stranger"],
)
async def test_strange_answers(shell: Shell, nsqd: FakeNsqd, answer: bytes, text: str) -> None:
    async with shell.producer(nsqd.address, resend=False) as producer:
        await producer.ping()
        nsqd.silent = True
        pending = asyncio.ensure_future(producer.publish("t", b"x"))
        await until(lambda: nsqd.count(Publish) == 1)
        nsqd.send(answer)
        with pytest.raises(ClientError, match=text):
            await pending
        nsqd.silent = False
        await producer.publish("t", b"y")


async def test_options_are_checked(shell: Shell) -> None:
    with pytest.raises(ConfigError, match="HeartbeatInterval"):
        shell.producer("a:1", config=Config(heartbeat_interval=90))
    with pytest.raises(ConfigError, match="no address"):
        shell.producer()
    with pytest.raises(ValueError, match="missing port"):
        shell.producer("a")


# --- against our nsqd, the program itself


def stored(nsqd: Daemon, topic: str) -> int:
    with urlopen(f"http://{nsqd.http}/stats?format=json&topic={topic}") as answer:
        (found,) = json.load(answer)["topics"]
    return int(found["depth"])


async def test_nothing_is_lost_over_a_restart() -> None:
    acknowledged = 0

    async def publish(producer: Producer, started: asyncio.Event) -> None:
        nonlocal acknowledged
        for _ in range(100):
            while True:
                try:
                    await producer.publish("t", b"x")
                except NotConnected:
                    await asyncio.sleep(0.02)
                else:
                    break
            acknowledged += 1
            started.set()

    async with in_thread(run_nsqd()) as nsqd:
        async with Producer(nsqd.tcp, max_pending=200) as producer, asyncio.TaskGroup() as group:
            started = asyncio.Event()
            for _ in range(50):
                group.create_task(publish(producer, started))
            await started.wait()
            await asyncio.to_thread(nsqd.restart)
        assert acknowledged == 5000
        assert await asyncio.to_thread(stored, nsqd, "t") >= 5000


# --- asyncio's alone


def begun(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.ensure_future(coroutine)


async def test_side_by_side_means_together(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        names = ["even", "odd"]
        await asyncio.gather(*(producer.publish(names[n % 2], b"%d" % n) for n in range(100)))
    assert dict(nsqd.published) == {
        "even": [b"%d" % n for n in range(0, 100, 2)],
        "odd": [b"%d" % n for n in range(1, 100, 2)],
    }
    assert nsqd.count(Identify) == 1


async def test_a_topic_keeps_its_order(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await asyncio.gather(
            producer.publish("t", b"1"),
            producer.multi_publish("t", [b"2", b"3"]),
            producer.publish("t", b"4"),
            producer.publish("t", b"5"),
        )
    assert nsqd.published == [("t", [b"1"]), ("t", [b"2", b"3"]), ("t", [b"4", b"5"])]


async def test_messages_wait_for_company_while_answers_are_due(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await producer.ping()
        nsqd.silent = True
        tasks = []
        for n in range(UNANSWERED_MAX + 20):
            tasks.append(begun(producer.publish("t", b"%d" % n)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await until(lambda: nsqd.count(Publish) == UNANSWERED_MAX)
        assert producer.connections[nsqd.address].unanswered == UNANSWERED_MAX
        assert producer.pending == UNANSWERED_MAX + 20
        nsqd.silent = False
        nsqd.send(frames.OK_FRAME * UNANSWERED_MAX)
        await asyncio.gather(*tasks)
    assert nsqd.published == [
        ("t", [b"%d" % n for n in range(UNANSWERED_MAX, UNANSWERED_MAX + 20)])
    ]


async def test_asyncios_soon_and_flush(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, max_pending=10) as producer:
        for n in range(95):
            future = await producer.publish_soon("t", b"%d" % n)
            assert producer.pending <= 10
        await producer.flush()
        assert future.done()
        assert producer.pending == 0
    assert bodies(nsqd) == [b"%d" % n for n in range(95)]


async def test_bytes_under_way_are_bounded(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, max_pending_bytes=1000) as producer:
        await producer.ping()
        nsqd.silent = True
        await producer.publish_soon("t", b"x" * 5000)
        second = begun(producer.publish("t", b"2"))
        await until(lambda: nsqd.count(Publish) == 1)
        assert producer.pending == 1
        assert not second.done()
        nsqd.silent = False
        nsqd.send(frames.OK_FRAME)
        await second


async def test_who_waits_for_room_may_give_up(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, max_pending=1) as producer:
        await producer.ping()
        nsqd.silent = True
        first, second, third = (begun(producer.publish("t", b"%d" % n)) for n in range(3))
        await until(lambda: nsqd.count(Publish) == 1)
        second.cancel()
        nsqd.silent = False
        nsqd.send(frames.OK_FRAME)
        await asyncio.gather(first, third)
        assert second.cancelled()
    assert bodies(nsqd) == [b"2"]


async def test_who_gives_up_waiting_leaves_nothing_behind(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, max_pending=1) as producer:
        await producer.ping()
        nsqd.silent = True
        first = await producer.publish_soon("t", b"0")
        await until(lambda: nsqd.count(Publish) == 1)
        for _ in range(20):
            for waits in (producer.publish("t", b"1"), producer.flush()):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(waits, 0.001)
        assert not producer._outside
        assert not producer._idle
        nsqd.silent = False
        nsqd.send(frames.OK_FRAME)
        await first
        await producer.publish("t", b"2")
    assert bodies(nsqd) == [b"2"]


async def test_a_refusal_concerns_only_what_was_refused(nsqd: FakeNsqd) -> None:
    """What came behind it in the same write was not carried out, and is sent again; what it was
    gathered with is sent by itself.
    """
    nsqd.refuse = lambda bodies: "E_BAD_MESSAGE message too big" if b"big" in bodies else ""
    async with Producer(nsqd.address) as producer:
        several = producer.multi_publish
        for publishes, published in (
            ([several("t", [b"1", b"2"]), several("t", [b"big", b"3"]),
              several("t", [b"4", b"5"]), producer.publish("u", b"6")],
             [("t", [b"1", b"2"]), ("t", [b"4", b"5"]), ("u", [b"6"])]),
            ([producer.publish("t", body) for body in (b"1", b"big", b"2", b"3")],
             [("t", [b"1"]), ("t", [b"2"]), ("t", [b"3"])]),
        ):  # fmt: skip
            nsqd.published.clear()
            results = await asyncio.gather(*publishes, return_exceptions=True)
            kinds = [type(result) for result in results]
            assert kinds == [type(None), BadMessage, type(None), type(None)]
            assert nsqd.published == published


async def test_which_nodes_are_connected_can_be_seen(nsqd: FakeNsqd) -> None:
    away = unused_address()
    async with Producer(away, nsqd.address) as producer:
        await producer.ping()
        state = producer.connections
    assert state[away].is_dead
    assert not state[away].is_connected
    assert "connection refused" in str(state[away].error)
    assert state[nsqd.address].is_connected
    assert not state[nsqd.address].is_dead


@pytest.mark.parametrize("resend", [True, False])
async def test_all_that_was_under_way_goes_to_another_node(nsqd: FakeNsqd, resend: bool) -> None:
    with fake_nsqd() as other:
        addresses = [nsqd.address, other.address]
        async with Producer(*addresses, resend=resend, mode="round-robin") as producer:
            await producer.ping()
            await producer.ping()
            nsqd.silent = True
            under_way = [begun(producer.publish("t", b"%d" % n)) for n in range(3)]
            await until(lambda: nsqd.count(Publish) == 1)
            nsqd.drop_connections()
            results = await asyncio.gather(*under_way, return_exceptions=True)
        if resend:
            assert results == [None] * 3
            assert bodies(other) == [b"0", b"1", b"2"]
        else:
            assert [type(result) for result in results] == [NotConnected] * 3
            assert bodies(other) == []


class HalfClosed:
    """A node that closes its side of the first connection and reads no further there, as one that
    is cut off. It keeps the bodies of what it answers on other connections.
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.connections = 0
        self.over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        commands = CommandReader(Limits(max_msg_size=32 << 20), expect_magic=True)
        is_first = self.connections == 1
        while data := await reader.read(1 << 16):
            commands.receive_data(data)
            while (event := commands.next_event()) is not None:
                writer.write(frames.OK_FRAME)
                if isinstance(event, Publish):
                    self.bodies += event.bodies.to_list()
            if is_first:
                writer.write_eof()
                await self.over.wait()
                break
        writer.close()


async def test_no_answer_is_taken_for_one_to_what_another_connection_took() -> None:
    node = HalfClosed()
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        config = Config(write_timeout=60, read_timeout=20, heartbeat_interval=20)
        producer = Producer(f"127.0.0.1:{port}", config=config)
        large = bytes(20 << 20)  # more than all buffers on the way take
        first = begun(producer.publish("t", large))
        await until(lambda: producer.connections[f"127.0.0.1:{port}"].unanswered == 1)
        await until(lambda: not producer.connections[f"127.0.0.1:{port}"].is_connected)
        await producer.publish("t", b"second")
        await first
        assert sorted(map(len, node.bodies)) == [len(b"second"), len(large)]
        node.over.set()
        await producer.close()


async def test_a_cancelled_publish_does_not_confuse_the_next(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await producer.ping()
        nsqd.silent = True
        cancelled = begun(producer.publish("t", b"2"))
        await until(lambda: nsqd.count(Publish) == 1)
        following = begun(producer.publish("t", b"3"))
        await until(lambda: nsqd.count(Publish) == 2)
        cancelled.cancel()
        nsqd.send(frames.OK_FRAME)
        await until(lambda: producer.pending == 1)
        assert not following.done()
        nsqd.send(frames.OK_FRAME)
        await following


async def test_no_answer_to_asyncios(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address, resend=False) as producer:
        await producer.ping()
        nsqd.silent = True
        node = producer._nodes[nsqd.address]  # which is impatient from now on
        node._config = replace(node._config, read_timeout=0.5)
        with pytest.raises(TimedOut, match="no answer to a publish in time"):
            await producer.publish("t", b"1")


async def test_a_dead_node_is_not_dialled_for_each_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "penstock.nsq.client")
    async with Producer(unused_address(), clock=FakeClock()) as producer:
        for _ in range(20):
            with pytest.raises(NotConnected):
                await producer.publish("t", b"1")
    assert caplog.text.count("connecting to nsqd\n") < 5


async def test_asyncios_stopped(nsqd: FakeNsqd) -> None:
    producer = Producer(nsqd.address, max_pending=3)
    await producer.ping()
    nsqd.silent = True
    under_way = [begun(producer.publish("t", b"x")) for _ in range(5)]
    await until(lambda: nsqd.count(Publish) == 1)
    await producer.close()
    results = await asyncio.gather(*under_way, return_exceptions=True)
    assert [str(result) for result in results] == ["stopped"] * 5
    for late in (producer.publish("t", b"x"), producer.multi_publish("t", [b"x"]), producer.ping()):
        with pytest.raises(Stopped):
            await late
    assert producer.pending == 0
    await producer.flush()
    await producer.close()


async def test_stopped_while_connecting() -> None:
    with fake_nsqd() as nsqd:
        nsqd.silent = True
        producer = Producer(nsqd.address)
        publish = begun(producer.publish("t", b"x"))
        await until(lambda: nsqd.count(Identify) == 1)
        await producer.close()
        with pytest.raises(Stopped):
            await publish


async def test_leaving_with_an_error_does_not_wait(nsqd: FakeNsqd) -> None:
    async def failing() -> None:
        async with Producer(nsqd.address) as producer:
            await producer.ping()
            nsqd.silent = True
            await producer.publish_soon("t", b"x")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await failing()


async def test_an_answer_nobody_waits_for(nsqd: FakeNsqd) -> None:
    async with Producer(nsqd.address) as producer:
        await producer.publish("t", b"1")
        nsqd.send(frames.OK_FRAME)
        await until(lambda: not producer.connections[nsqd.address].is_connected)
        await producer.publish("t", b"2")
    assert bodies(nsqd) == [b"1", b"2"]


# --- the blocking one alone


def test_no_answer_to_the_blocking(nsqd: FakeNsqd) -> None:
    with BlockingProducer(nsqd.address, resend=False) as producer:
        producer.ping()
        nsqd.silent = True
        connection: Any = producer._nodes[nsqd.address].connection  # this one alone is impatient
        connection.config = replace(connection.config, read_timeout=0.5)
        with pytest.raises(TimedOut, match=nsqd.address):
            producer.publish("t", b"1")
        nsqd.silent = False
        producer.publish("t", b"1")


def test_heartbeats_are_answered_while_waiting(nsqd: FakeNsqd) -> None:
    def answer() -> None:
        nsqd.wait(lambda: nsqd.count(Publish) == 1)
        nsqd.send(frames.HEARTBEAT_FRAME * 2 + frames.OK_FRAME)

    with BlockingProducer(nsqd.address) as producer:
        producer.ping()
        nsqd.wait(lambda: nsqd.count(Nop) == 1)
        nsqd.silent = True
        threading.Thread(target=answer).start()
        producer.publish("t", b"x")
        nsqd.wait(lambda: nsqd.count(Nop) == 3)


def test_blocking_soon_and_flush(nsqd: FakeNsqd) -> None:
    with BlockingProducer(nsqd.address, max_pending=500) as producer:
        for n in range(1000):
            outcome = producer.publish_soon("t", b"%d" % n)
            assert producer.pending <= 500
        assert not outcome.done()
        outcome.result()
        producer.publish_soon("t", b"last")
    assert bodies(nsqd) == [*(b"%d" % n for n in range(1000)), b"last"]
    assert len(nsqd.published) < 10


class Torn:
    """A socket on which a signal's handler raises in the midst of what is sent first."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole
        self._is_torn = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def send(self, data: memoryview) -> int:
        if self._is_torn:
            return int(self._whole.send(data))
        self._is_torn = True
        self._whole.send(data[: len(data) // 2])
        raise KeyboardInterrupt


def test_nothing_follows_half_a_command(nsqd: FakeNsqd) -> None:
    with BlockingProducer(nsqd.address) as producer:
        producer.ping()
        connection: Any = producer._nodes[nsqd.address].connection
        connection._socket = Torn(connection._socket)
        with pytest.raises(KeyboardInterrupt):
            producer.publish("t", bytes(100))
        producer.publish("t", b"next" * 99)
    assert bodies(nsqd) == [bytes(100), b"next" * 99]


def test_what_a_signal_kept_from_being_sent_goes_with_the_next_call(
    nsqd: FakeNsqd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with BlockingProducer(nsqd.address) as producer:
        producer.publish("t", b"1")
        nsqd.silent = True
        for n in range(2, 4):
            producer.publish_soon("t", b"%d" % n)
            producer._send_pile()
        nsqd.wait(lambda: nsqd.count(Publish) == 3)
        nsqd.silent = False
        nsqd.drop_connections()
        with monkeypatch.context() as patch:
            patch.setattr(socket, "create_connection", interrupted)
            with pytest.raises(KeyboardInterrupt):
                producer.flush()
        assert producer.pending == 2
    assert sorted(bodies(nsqd)) == [b"1", b"2", b"3"]


def test_blocking_stopped(nsqd: FakeNsqd) -> None:
    producer = BlockingProducer(nsqd.address)
    outcome = producer.publish_soon("t", b"x")
    producer.close()
    for late in (outcome.result, lambda: producer.publish("t", b"x"), producer.ping):
        with pytest.raises(Stopped, match="stopped"):
            late()
    assert nsqd.asked == []
