"""One asyncio connection against scripted servers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from penstock.nsq.client.aio.connection import Connection
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.wire import Wire
from penstock.nsq.client.errors import (
    NotConnected,
)
from penstock.nsq.protocol import encode, frames
from penstock.nsq.protocol.events import Finish, Nop, Ready
from penstock.nsq.protocol.frames import Frame, Response
from tests.unit.nsq.client.fakes import fake_nsqd

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


async def test_a_conversation() -> None:
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


async def test_ready_is_sent_when_it_changes() -> None:
    with fake_nsqd(max_rdy_count=5) as nsqd:
        link = await Owner().open(nsqd.address, None, "t", "c")
        for count in (9, 5, 5, 0):
            link.set_ready(count)
        await link.close()
        nsqd.wait(lambda: not nsqd._sessions)
        assert [event for event in nsqd.asked if isinstance(event, Ready)] == [Ready(5), Ready(0)]


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


async def test_a_heartbeat_is_answered_and_seen() -> None:
    owner = Owner()
    with fake_nsqd() as nsqd:
        link = await owner.open(nsqd.address)
        nsqd.send(frames.HEARTBEAT_FRAME + frames.OK_FRAME)
        await owner.wait()
        assert owner.frames == [Response(b"OK")]
        await asyncio.to_thread(nsqd.wait, lambda: nsqd.count(Nop) == 1)
        assert link.state.last_heartbeat is not None
        await link.close()


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


async def test_garbage_ends_it() -> None:
    owner = Owner()
    with fake_nsqd() as nsqd:
        link = await owner.open(nsqd.address)
        nsqd.send(frames.OK_FRAME)
        await owner.wait()
        nsqd.send(b"\xff" * 20)
        await owner.wait()
        assert len(owner.losses) == 1
        assert "is no NSQ frame" in owner.losses[0]
        assert not link.is_open


async def test_a_reason_that_the_server_gave() -> None:
    owner = Owner()
    with fake_nsqd() as nsqd:
        await owner.open(nsqd.address)
        nsqd.send(frames.error("E_INVALID cannot FIN in current state"))
        await owner.wait()
        nsqd.drop_connections()
        await owner.wait()
    assert owner.losses == [
        "the server closed the connection after E_INVALID cannot FIN in current state"
    ]


async def test_a_server_without_heartbeats_is_gone() -> None:
    owner = Owner()
    with fake_nsqd() as nsqd:
        await owner.open(nsqd.address, Config(heartbeat_interval=0.02))
        await owner.wait()
    assert owner.losses == ["silent for 0.04 s"]


def on(loop: Callable[[], asyncio.AbstractEventLoop], work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_server_that_takes_nothing_is_gone(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def work() -> None:
        owner = Owner()
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            opening = asyncio.ensure_future(owner.open(address, Config(write_timeout=0.1)))
            peer, _ = await asyncio.to_thread(listener.accept)
            stack.enter_context(peer)
            peer.sendall(frames.response(b"{}"))
            link = await opening
            link.send(encode.publish("t", bytes(32 << 20)))
            await owner.wait()
        assert owner.losses == ["the server took nothing of what was sent for 0.1 s"]

    on(loop, work())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_server_that_takes_slowly_stays(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def work() -> None:
        owner = Owner()
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            opening = asyncio.ensure_future(owner.open(address, Config(write_timeout=60)))
            peer, _ = await asyncio.to_thread(listener.accept)
            stack.enter_context(peer)
            peer.sendall(frames.response(b"{}"))
            link = await opening
            link.send(bytes(24 << 20))
            outflow, taken, rounds = link._outflow, 0, 0
            while outflow._watch is not None:  # until the transport has taken all
                before = outflow._taken_by_now()
                while outflow._watch is not None and outflow._taken_by_now() == before:
                    taken += len(await asyncio.to_thread(peer.recv, 1 << 20))
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
