"""One connection of either library, against scripted servers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NoReturn, cast

import pytest
import uvloop

from penstock.core.units import SECOND
from penstock.nsq.client.aio.connection import Connection
from penstock.nsq.client.aio.node import RETRY_DELAY, RETRY_DELAY_MAX, Node
from penstock.nsq.client.blocking.connection import Connection as BlockingConnection
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.wire import Wire
from penstock.nsq.client.errors import (
    BadTlsOptions,
    ClientError,
    NotConnected,
    ServerError,
    TimedOut,
)
from penstock.nsq.client.publishing import Request, Router
from penstock.nsq.protocol import encode, frames
from penstock.nsq.protocol.events import Finish, Ready
from penstock.nsq.protocol.frames import Frame, MessageBlock, Response
from penstock.testing.clock import FakeClock
from tests.programs.nsq.client.conftest import Shell
from tests.unit.nsq.client.fakes import FakeNsqd, fake_nsqd
from tools.harness.ports import unused_address


@contextlib.contextmanager
def deaf_server() -> Iterator[tuple[str, list[socket.socket]]]:
    """A server that answers IDENTIFY unasked and reads nothing; its address, and its peers."""
    peers: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def accept() -> None:
            peer, _ = listener.accept()
            peers.append(peer)
            peer.sendall(frames.response(b"{}"))

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", peers
        finally:
            thread.join()
            for peer in peers:
                peer.close()


# --- both


async def test_no_answer_to_identify(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.silent = True
    with pytest.raises(TimedOut, match=r"no answer within 0.1 s \(IDENTIFY\)"):
        await shell.open(nsqd.address, Config(read_timeout=0.1))


async def test_nobody_there(shell: Shell) -> None:
    address = unused_address()
    with pytest.raises(NotConnected) as found:
        await shell.open(address)
    assert found.value.reason == f"dial tcp {address}: connect: connection refused"
    with pytest.raises(NotConnected, match="cannot assign requested address"):
        await shell.open(address, Config(local_addr="192.0.2.1:0"))
    with pytest.raises(BadTlsOptions, match="/no/such"):
        await shell.open(address, Config(tls_v1=True, tls_root_ca_file="/no/such"))


async def test_the_address_it_comes_from(shell: Shell, nsqd: FakeNsqd) -> None:
    link = await shell.open(nsqd.address, Config(local_addr="127.0.0.2:0"))
    assert nsqd._sessions[0].peer.getpeername()[0] == "127.0.0.2"
    await link.close()


# --- asyncio's


LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class Owner:
    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.losses: list[str] = []
        self.news = asyncio.Event()

    def take(self, link: Connection, frame: Frame) -> None:
        self.frames.append(frame)
        self.news.set()

    def lose(self, link: Connection, error: NotConnected) -> None:
        self.losses.append(error.reason)
        self.news.set()

    async def wait(self) -> None:
        async with asyncio.timeout(30):
            await self.news.wait()
        self.news.clear()

    async def open(
        self, address: str, config: Config | None = None, *subscription: str
    ) -> Connection:
        topic, channel = subscription or ("", "")
        return await Connection.open(
            address, config or Config(), topic, channel,
            on_frame=self.take, on_lost=self.lose,
        )  # fmt: skip


class Recorder(asyncio.Transport):
    """A transport that takes everything and keeps it, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def recorded() -> tuple[Connection, Recorder]:
    """A link that has shaken hands, and what it has written since."""
    config = Config(heartbeat_interval=-1)
    link = Connection(
        Wire("h:1", config, "t", "c"), config, lambda link, frame: None, lambda link, error: None
    )
    transport = Recorder()
    link.connection_made(transport)
    link.data_received(frames.response(b"{}"))
    link.data_received(frames.OK_FRAME)
    transport.writes.clear()
    return link, transport


async def test_a_conversation_of_asyncios() -> None:
    owner = Owner()
    with fake_nsqd(max_rdy_count=5) as nsqd:
        link = await owner.open(nsqd.address)
        assert link.is_open
        assert link.server.max_rdy_count == 5
        link.send(encode.publish("t", b"x"))
        await owner.wait()
        assert owner.frames == [Response(b"OK")]
        await link.close()
        await link.close()
        assert owner.losses == ["closed"]
        assert not link.answer(encode.NOP)
        assert link.left.is_set()


async def test_what_is_said_in_one_pass_is_one_write() -> None:
    link, transport = recorded()
    await asyncio.sleep(0)  # for SUB
    transport.writes.clear()
    lines = [encode.finish(b"%016x" % number) for number in range(100)]
    for line in lines:
        assert link.answer(line)
    link.set_ready(7)
    assert transport.writes == []
    await asyncio.sleep(0)
    assert transport.writes == [b"".join(lines) + b"RDY 7\n"]
    assert (link.state.finished, link.ready) == (100, 7)
    big = encode.publish("t", bytes(70_000))
    link.send(big)
    assert transport.writes[1:] == [big]
    await asyncio.sleep(0)
    assert len(transport.writes) == 2


async def test_idle_means_nothing_in_flight() -> None:
    with fake_nsqd() as nsqd:
        link = await Owner().open(nsqd.address)
        assert link.idle.is_set()
        link.add_in_flight(2)
        link.settled()
        assert link.in_flight == 1
        assert not link.idle.is_set()
        link.settled()
        assert link.idle.is_set()
        await link.close()


async def test_what_was_answered_last_is_sent_before_the_end() -> None:
    with fake_nsqd() as nsqd:
        link = await Owner().open(nsqd.address, None, "t", "c")
        for number in range(3):
            link.answer(encode.finish(b"%016x" % number))
        await link.close()
        nsqd.wait(lambda: not nsqd._sessions)
        (finish,) = [event for event in nsqd.asked if isinstance(event, Finish)]
        assert list(finish.ids) == [0, 1, 2]


async def test_close_wait_is_seen() -> None:
    with fake_nsqd() as nsqd:
        link = await Owner().open(nsqd.address, None, "t", "c")
        assert not link.left.is_set()
        link.send(encode.CLS)
        async with asyncio.timeout(30):
            await link.left.wait()
        assert link.is_open
        await link.close()


async def test_a_loss_while_opening() -> None:
    owner = Owner()
    with fake_nsqd() as nsqd:
        nsqd.silent = True
        opening = asyncio.ensure_future(owner.open(nsqd.address))
        await asyncio.to_thread(nsqd.wait, lambda: nsqd.asked)
        nsqd.drop_connections()
        with pytest.raises(NotConnected, match="closed the connection before it answered"):
            await opening
    assert owner.losses == []


async def test_opening_can_be_given_up() -> None:
    with fake_nsqd() as nsqd:
        nsqd.silent = True
        opening = asyncio.ensure_future(Owner().open(nsqd.address))
        await asyncio.to_thread(nsqd.wait, lambda: nsqd.asked)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await asyncio.to_thread(nsqd.wait, lambda: not nsqd._sessions)


async def test_an_answer_to_somebody_who_has_given_up() -> None:
    losses: list[NotConnected] = []
    link = Connection(
        Wire("h:1", Config()), Config(), lambda link, frame: None,
        lambda link, error: losses.append(error),
    )  # fmt: skip
    link.connection_made(Recorder())
    link._shaken.cancel()
    link.data_received(frames.response(b"{}"))
    link.connection_lost(None)
    assert losses == []


def on(loop: Callable[[], asyncio.AbstractEventLoop], work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_server_that_takes_nothing_is_gone_for_asyncios(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def work() -> None:
        owner = Owner()
        with deaf_server() as (address, _):
            link = await owner.open(address, Config(write_timeout=0.1))
            link.send(encode.publish("t", bytes(32 << 20)))
            await owner.wait()
        assert owner.losses == ["the server took nothing of what was sent for 0.1 s"]

    on(loop, work())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_server_that_takes_slowly_stays_for_asyncios(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def work() -> None:
        owner = Owner()
        with deaf_server() as (address, peers):
            link = await owner.open(address, Config(write_timeout=60))
            link.send(bytes(24 << 20))
            outflow, taken, rounds = link._outflow, 0, 0
            while outflow._watch is not None:  # until the transport has taken all
                before = outflow._taken_by_now()
                while outflow._watch is not None and outflow._taken_by_now() == before:
                    taken += len(await asyncio.to_thread(peers[0].recv, 1 << 20))
                    await asyncio.sleep(0.005)
                if outflow._watch is not None:
                    outflow._watch.cancel()
                    outflow._look()  # as when the time is over
                    rounds += 1
            assert owner.losses == []
            assert rounds > 2
            assert taken < 24 << 20
            await link.close()

    on(loop, work())


@pytest.mark.parametrize("is_shaken", [False, True])
@pytest.mark.parametrize("new_loop", LOOPS)
def test_giving_up_in_the_very_moment_of_connecting_leaves_nothing_to_do(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    is_shaken: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvloop has closed the transport then, without a word to its protocol, which may have read
    the whole handshake by then.
    """
    told: list[dict[str, Any]] = []
    opened: list[Connection] = []
    made = Connection.connection_made

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, what: told.append(what))
        with fake_nsqd() as nsqd:
            owner = Owner()
            task = asyncio.create_task(owner.open(nsqd.address))

            def made_and_given_up(self: Connection, transport: asyncio.BaseTransport) -> None:
                made(self, transport)
                opened.append(self)
                self.send(encode.NOP)
                if is_shaken:
                    self._shaken.set_result(None)
                task.cancel()

            monkeypatch.setattr(Connection, "connection_made", made_and_given_up)
            with pytest.raises(asyncio.CancelledError):
                await task
            async with asyncio.timeout(30):
                await opened[0].closed.wait()
            assert owner.losses == []

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
    assert told == []


# --- a node of asyncio's producer, dialled when needed


class Told:
    """What a node's router hears, and what is to be sent again."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    def succeeded(self, request: Request) -> None:
        self.heard.put_nowait("answered")

    def refused(self, request: Request, error: ServerError) -> list[Request]:
        self.heard.put_nowait(f"refused {error.code}")
        return []

    def behind(self, requests: Sequence[Request], error: ServerError) -> list[Request]:
        return list(requests)

    def fail(self, request: Request, error: ClientError) -> None:
        self.heard.put_nowait("failed")

    def lost(
        self, requests: Sequence[Request], error: ClientError, *, was_sent: bool
    ) -> list[Request]:
        self.heard.put_nowait(f"lost {len(requests)} {'sent' if was_sent else 'unsent'}")
        return []

    def again(self, requests: Sequence[Request]) -> None:
        if requests:
            self.heard.put_nowait(f"{len(requests)} again")

    async def next(self) -> str:
        async with asyncio.timeout(30):
            return await self.heard.get()


def node_of(address: str, config: Config, clock: FakeClock, told: Told) -> Node:
    return Node(address, config, clock, cast(Router, told), told.again)


def request(body: bytes = b"x") -> Request:
    return Request("t", [body], [], len(body))


async def test_answers_and_refusals() -> None:
    with fake_nsqd() as nsqd:
        told = Told()
        node = node_of(nsqd.address, Config(), FakeClock(), told)
        assert not node.is_connected
        node.send([request()])
        assert await told.next() == "answered"
        assert node.is_connected
        nsqd.refuse = lambda bodies: "E_BAD_MESSAGE no" if bodies == [b"bad"] else ""
        node.send([request(b"bad"), request(), request()])
        assert await told.next() == "refused E_BAD_MESSAGE"
        assert await told.next() == "2 again"
        assert not node.is_connected
        assert node.stop() == []
        await node.close()


async def test_an_unreachable_node_is_left_alone_for_longer_each_time() -> None:
    clock, told = FakeClock(), Told()
    node = node_of(unused_address(), Config(), clock, told)
    delay = RETRY_DELAY
    for _ in range(7):
        node.send([request(), request()])
        assert await told.next() == "lost 2 unsent"
        clock.advance(delay - 1)
        node.send([request()])
        assert told.heard.get_nowait() == "lost 1 unsent"  # at once, without a dial
        clock.advance(1)
        delay = min(2 * delay, RETRY_DELAY_MAX)
    assert delay == RETRY_DELAY_MAX == SECOND
    with pytest.raises(NotConnected, match="connection refused"):
        await node.ping()


async def test_what_was_under_way_is_given_back_at_the_end() -> None:
    with fake_nsqd() as nsqd:
        told = Told()
        node = node_of(nsqd.address, Config(), FakeClock(), told)
        waiting, sent = request(), request()
        node.send([waiting])
        assert node.stop() == [waiting]
        await node.close()
        await node.ping()
        nsqd.silent = True
        node.send([sent])
        assert node.stop() == [sent]
        await node.close()
    assert told.heard.empty()


# --- the blocking one


def test_a_conversation() -> None:
    with fake_nsqd(version="1.3.0", max_rdy_count=7) as nsqd:
        connection = BlockingConnection(nsqd.address, topic="t", channel="c")
        assert connection.server.version == "1.3.0"
        nsqd.put(b"a")
        connection.set_ready(9)
        connection.set_ready(7)
        block = connection.receive()
        assert isinstance(block, MessageBlock)
        assert block.bodies() == [b"a"]
        assert connection.answer(encode.finish(block[0].id))
        connection.send(encode.CLS)
        assert connection.receive(60) == Response(b"CLOSE_WAIT")
        assert nsqd.asked.count(Ready(7)) == 1
        assert connection.receive_ready() == []
        assert (connection.state.finished, connection.ready, connection.state.left) == (1, 7, True)
        connection.close()
        connection.close()
        assert not connection.is_open
        assert connection.fileno() == -1


def test_a_lost_connection() -> None:
    with fake_nsqd() as nsqd:
        connection = BlockingConnection(nsqd.address)
        nsqd.drop_connections()
        with pytest.raises(NotConnected, match="the server closed the connection"):
            connection.receive(60)
        assert not connection.answer(encode.NOP)
        with pytest.raises(NotConnected, match="is closed"):
            connection.receive_ready()
        with pytest.raises(NotConnected, match="is closed"):
            connection.send(encode.NOP)


def test_patience() -> None:
    with fake_nsqd() as nsqd:
        connection = BlockingConnection(nsqd.address)
        with pytest.raises(TimedOut, match=r"no answer within 0.05 s$"):
            connection.receive(0.05)
        assert not connection.is_open


def test_frames_that_came_together_are_kept() -> None:
    with fake_nsqd() as nsqd:
        connection = BlockingConnection(nsqd.address)
        nsqd.send(frames.OK_FRAME * 3)
        assert connection.receive() == Response(b"OK")
        rest = connection.receive_ready()
        while len(rest) < 2:
            rest += connection.receive_ready()
        assert rest == [Response(b"OK")] * 2
        connection.close()


def test_a_server_that_takes_nothing_is_gone() -> None:
    with deaf_server() as (address, _):
        connection = BlockingConnection(address, Config(write_timeout=0.1))
        with pytest.raises(TimedOut, match=r"the server took nothing .* for 0.1 s"):
            connection.send(encode.publish("t", bytes(32 << 20)))
        assert not connection.is_open


def test_a_server_that_takes_slowly_stays() -> None:
    """Each wait for room has the whole time, however long all of them take together."""
    waits: list[float] = []

    class Slow:
        """A socket that has room again whenever that is waited for, after the server took some."""

        def poll(self, ms: float) -> object:
            waits.append(ms)
            peers[0].recv(1 << 20)
            while not (found := real.poll(100)):
                peers[0].recv(1 << 20)
            return found

    with deaf_server() as (address, peers):
        connection: Any = BlockingConnection(address, Config(write_timeout=0.6))
        real, connection._writable = connection._writable, Slow()
        connection.send(bytes(24 << 20))
        assert connection.is_open
        connection.close()
    assert len(waits) > 2
    assert set(waits) == {600}


def test_a_write_that_a_signal_interrupts_ends_it() -> None:
    class Interrupted:
        def poll(self, _: float) -> NoReturn:
            raise KeyboardInterrupt

    with deaf_server() as (address, _):
        connection: Any = BlockingConnection(address)
        connection._writable = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            connection.send(encode.publish("t", bytes(32 << 20)))
        assert not connection.is_open
