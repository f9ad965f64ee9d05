"""Connections: requests both ways, one-way requests, idleness, streams without sense."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator

import pytest

from penstock.core.errors import StorageError
from penstock.net import tcp
from penstock.net.budget import SMALL, Budget, MemoryTurn, Turns
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.remoting import (
    TOGETHER_MAX,
    Connection,
    LateAnswerError,
    NoAnswerError,
    RemotingServer,
)
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient


class Echo:
    """Answers with the request's body; odd codes fail in their ways."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.gone = threading.Event()

    def handle(self, connection: Connection, request: Command) -> Command | None:
        if request.code == 1:
            raise BodyError("bad body")
        if request.code == 2:
            raise StorageError("disk full")
        if request.code == 3:
            return None
        return request.answer(body=request.body)

    def connected(self, connection: Connection) -> None:
        self.connections.append(connection)

    def disconnected(self, connection: Connection) -> None:
        self.gone.set()


class Fixture:
    def __init__(self, loop_thread: LoopThread) -> None:
        self.handler = Echo()
        self.server = RemotingServer(self.handler)
        self.thread = loop_thread
        self.listener = loop_thread.run(tcp.listen(self.server, "127.0.0.1:0"))
        self.client = RawClient(self.listener.port)
        assert self.client.ask(0, b"hello").body == b"hello"

    @property
    def connection(self) -> Connection:
        return self.handler.connections[0]

    def close(self) -> None:
        self.client.close()
        self.thread.run(self.listener.close())
        self.thread.loop.call_soon_threadsafe(self.server.close_connections)
        assert self.handler.gone.wait(30)


@pytest.fixture
def echo(loop_thread: LoopThread) -> Iterator[Fixture]:
    fixture = Fixture(loop_thread)
    yield fixture
    fixture.close()


def test_failures_become_answers(echo: Fixture) -> None:
    assert echo.client.ask(1).remark == "bad body"
    failed = echo.client.ask(2)
    assert (failed.code, failed.remark) == (1, "disk full")


def test_pipelined_requests_are_all_answered(echo: Fixture) -> None:
    requests = [echo.client.request(0, bytes([number])) for number in range(100)]
    echo.client.send(b"".join(frames.encode(request) for request in requests))
    answers = [echo.client.next_command() for _ in requests]
    assert [(a.opaque, a.body) for a in answers] == [(r.opaque, r.body) for r in requests]


def test_one_way_requests_have_no_answer(echo: Fixture) -> None:
    echo.client.tell(0)
    echo.client.tell(1)
    assert echo.client.ask(0, b"next").body == b"next"


def test_asking_the_client(echo: Fixture) -> None:
    echo.client.ask(0, serialization_=Serialization.BINARY)
    answers: list[Command] = []

    def ask() -> None:
        answers.append(
            echo.thread.run(echo.connection.invoke(307, {"a": "b"}, b"body", seconds=30))
        )

    thread = threading.Thread(target=ask)
    thread.start()
    request = echo.client.next_command()
    assert (request.code, request.ext, request.body) == (307, {"a": "b"}, b"body")
    assert request.serialization is Serialization.BINARY
    assert not request.is_response
    echo.client.send(frames.encode(Command(0, 99, flag=1)))  # an answer to nothing
    echo.client.send(frames.encode(request.answer(body=b"running")))
    thread.join(30)
    assert answers[0].body == b"running"


def test_a_client_that_does_not_answer(echo: Fixture) -> None:
    with pytest.raises(LateAnswerError, match=r"did not answer within 0\.01 s"):
        echo.thread.run(echo.connection.invoke(307, seconds=0.01))


def test_a_client_that_goes_while_it_is_asked(echo: Fixture) -> None:
    failures: list[Exception] = []

    def ask() -> None:
        try:
            echo.thread.run(echo.connection.invoke(307, seconds=30))
        except NoAnswerError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    echo.client.next_command()
    echo.client.close()
    thread.join(30)
    assert "is gone" in str(failures[0])


def test_telling_the_client(echo: Fixture) -> None:
    echo.thread.loop.call_soon_threadsafe(echo.connection.tell, 40, {"consumerGroup": "g"})
    told = echo.client.next_command()
    assert (told.code, told.ext, told.is_one_way) == (40, {"consumerGroup": "g"}, True)


def test_a_stream_without_sense_is_closed(echo: Fixture) -> None:
    echo.client.send(b"GET / HTTP/1.1\r\n\r\n")
    assert echo.client.is_closed()


def test_an_idle_connection_is_closed(echo: Fixture) -> None:
    echo.server.idle_s = 0.5
    idle = RawClient(echo.listener.port)
    idle.tell(0)  # wants no answer: the end may come before it
    assert idle.is_closed()
    idle.close()


class Later:
    """Answers together what came together, when the pass of the loop goes on."""

    def __init__(self) -> None:
        self.requests: list[Command] = []

    def handle(self, connection: Connection, request: Command) -> Command | None:
        if not self.requests:
            asyncio.get_running_loop().call_soon(self.answer, connection)
        self.requests.append(request)
        connection.flush_soon()
        return None

    def answer(self, connection: Connection) -> None:
        for request in self.requests:
            connection.send(request.answer(body=b"later"))

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None: ...


class Wire(asyncio.Transport):
    """A transport that remembers what each write held."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return False

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.writes.append(b"".join(list_of_data))


async def test_answers_of_one_pass_leave_with_one_write() -> None:
    connection = RemotingServer(Later())()
    wire = Wire()
    connection.connection_made(wire)
    connection.data_received(frames.encode(Command(0, 1)) + frames.encode(Command(0, 2)))
    await asyncio.sleep(0)
    assert [written.count(b"later") for written in wire.writes] == [2]
    connection.connection_lost(None)


class Gatherer:
    """Answers what was asked when all that was read is taken, or later."""

    def __init__(self, handler: Later) -> None:
        self.handler = handler
        self.is_late = False
        self.held = 0

    def hold(self) -> None:
        self.held += 1

    def release(self) -> bool:
        self.held -= 1
        (connection,) = self.connections
        if self.is_late:
            asyncio.get_running_loop().call_soon(self.handler.answer, connection)
        else:
            self.handler.answer(connection)
        return self.is_late

    connections: list[Connection]


class Noting(Later):
    """Only notes what is asked."""

    def handle(self, connection: Connection, request: Command) -> Command | None:
        self.requests.append(request)
        return None


@pytest.mark.parametrize("is_late", [False, True])
async def test_what_was_read_is_answered_as_a_whole(is_late: bool) -> None:
    handler = Noting()
    gatherer = Gatherer(handler)
    gatherer.is_late = is_late
    connection = RemotingServer(handler, gatherer=gatherer)()
    gatherer.connections = [connection]
    wire = Wire()
    connection.connection_made(wire)
    connection.data_received(frames.encode(Command(0, 1)) + frames.encode(Command(0, 2)))
    assert gatherer.held == 0
    if is_late:
        assert wire.writes == []
        await asyncio.sleep(0)
    assert [written.count(b"later") for written in wire.writes] == [2]
    connection.connection_lost(None)


async def test_what_was_read_before_rubbish_is_answered() -> None:
    handler = Noting()
    gatherer = Gatherer(handler)
    connection = RemotingServer(handler, gatherer=gatherer)()
    gatherer.connections = [connection]
    wire = Wire()
    connection.connection_made(wire)
    connection.data_received(frames.encode(Command(0, 1)) + bytes(8))
    assert gatherer.held == 0
    assert [written.count(b"later") for written in wire.writes] == [1]
    assert wire.is_closed
    connection.connection_lost(None)


class Wide(Noting):
    """Answers at once, each with a body that fills the wire."""

    def handle(self, connection: Connection, request: Command) -> Command | None:
        super().handle(connection, request)
        return request.answer(body=b"wide")


class Broad(Wire):
    """Sends all at once."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


class Narrow(Broad):
    """Is full after the first write, until it is read from."""

    connection: Connection

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        super().writelines(list_of_data)
        self.connection.pause_writing()


async def test_a_peer_that_reads_no_answers_gets_no_further_ones() -> None:
    handler, wire = Wide(), Narrow()
    wire.connection = connection = RemotingServer(handler)()
    connection.connection_made(wire)
    requests = [Command(0, number) for number in range(2 * TOGETHER_MAX + 1)]
    connection.data_received(b"".join(map(frames.encode, requests)))
    await asyncio.sleep(0)
    assert len(handler.requests) == TOGETHER_MAX
    for _ in range(2):
        connection.resume_writing()
        await asyncio.sleep(0)
    assert [request.opaque for request in handler.requests] == [each.opaque for each in requests]
    assert [written.count(b"wide") for written in wire.writes] == [TOGETHER_MAX, TOGETHER_MAX, 1]
    connection.connection_lost(None)


class Full(Noting):
    """Takes its first request again, at the second, whose answer the peer does not read."""

    def handle(self, connection: Connection, request: Command) -> Command | None:
        super().handle(connection, request)
        if len(self.requests) == 2:
            connection.pause_writing()
            connection.take_again(self.requests[0])
        return None


async def test_a_request_to_be_taken_again_is_not_lost_for_those_behind_it() -> None:
    handler, wire = Full(), Narrow()
    wire.connection = connection = RemotingServer(handler)()
    connection.connection_made(wire)
    connection.data_received(b"".join(frames.encode(Command(0, number)) for number in range(3)))
    connection.resume_writing()
    await asyncio.sleep(0)
    assert [request.opaque for request in handler.requests] == [0, 1, 0, 2]
    connection.connection_lost(None)


async def test_a_large_answer_of_one_that_waits_does_not_take_its_turn_away() -> None:
    turns = Turns(Budget("--flag", 1))
    other = MemoryTurn(turns, lambda: None, lambda: None)
    other.hold(2 * SMALL)
    assert other.try_take(), "it is the first in line"
    handler, wire = Wide(), Broad()
    connection = RemotingServer(handler, answer_turns=turns, large_answers=(0,))()
    connection.connection_made(wire)
    connection.data_received(frames.encode(Command(0, 1)))
    assert handler.requests == []
    connection.send_large([bytes(2 * SMALL)], 2 * SMALL)  # to a request that came before
    await asyncio.sleep(0)
    assert handler.requests == []
    other.hold(0)
    await asyncio.sleep(0)
    assert len(handler.requests) == 1
    connection.connection_lost(None)


async def test_many_answers_leave_in_several_writes() -> None:
    connection, wire = RemotingServer(Wide())(), Wire()
    connection.connection_made(wire)
    connection.data_received(frames.encode(Command(0)) * (TOGETHER_MAX + 1))
    assert [written.count(b"wide") for written in wire.writes] == [TOGETHER_MAX, 1]
    connection.connection_lost(None)
