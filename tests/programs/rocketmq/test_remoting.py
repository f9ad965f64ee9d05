"""Connections that we serve and that we open, requests both ways, streams without sense, TLS."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from penstock.core.errors import ConfigError, StorageError
from penstock.net import tcp
from penstock.net.budget import SMALL, Budget, MemoryQueue, MemoryTurn
from penstock.net.tls import layered
from penstock.net.tls.tls_layer import ServerTls
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.remoting import (
    TOGETHER_MAX,
    Connection,
    LateAnswerError,
    NoAnswerError,
    RemotingServer,
)
from penstock.rocketmq.remoting_client import UnreachableError, connect, tls_to
from tools.harness.ports import unused_address
from tools.harness.rocketmq.raw_client import RawClient


class Echo:
    """Answers with the request's body; odd codes fail in their ways, and 3 is not answered."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []

    def handle(self, connection: Connection, request: Command) -> Command | None:
        if request.code == 1:
            raise BodyError("bad body")
        if request.code == 2:
            raise StorageError("disk full")
        return None if request.code == 3 else request.answer(ext=request.ext, body=request.body)

    def connected(self, connection: Connection) -> None:
        self.connections.append(connection)

    def disconnected(self, connection: Connection) -> None:
        self.connections.remove(connection)


@asynccontextmanager
async def serving(server: RemotingServer) -> AsyncIterator[tcp.Listener]:
    listener = await tcp.listen(server, "127.0.0.1:0")
    yield listener
    await listener.close()
    server.close_connections()


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def server(echo: Echo) -> RemotingServer:
    return RemotingServer(echo)


@pytest.fixture
async def listener(server: RemotingServer) -> AsyncIterator[tcp.Listener]:
    async with serving(server) as listener:
        yield listener


@pytest.fixture
async def client(listener: tcp.Listener) -> AsyncIterator[RawClient]:
    """A client that says what a test wants, of whom the server has heard."""
    client = RawClient(listener.port)
    assert (await to_thread(client.ask, 0, b"hello")).body == b"hello"
    yield client
    client.close()


async def test_failures_become_answers(client: RawClient) -> None:
    for code, remark in ((1, "bad body"), (2, "disk full")):
        failed = await to_thread(client.ask, code)
        assert (failed.code, failed.remark) == (ResponseCode.SYSTEM_ERROR, remark)


async def test_pipelined_requests_are_all_answered(client: RawClient) -> None:
    requests = [client.request(0, bytes([number])) for number in range(100)]
    client.send(b"".join(map(frames.encode, requests)))
    answers = [await to_thread(client.next_command) for _ in requests]
    assert [(a.opaque, a.body) for a in answers] == [(r.opaque, r.body) for r in requests]


async def test_one_way_requests_have_no_answer(client: RawClient) -> None:
    client.tell(0)
    client.tell(1)
    assert (await to_thread(client.ask, 0, b"next")).body == b"next"


async def test_asking_the_client(client: RawClient, echo: Echo) -> None:
    await to_thread(client.ask, 0, serialization_=Serialization.BINARY)
    (connection,) = echo.connections
    asking = asyncio.create_task(connection.invoke(307, {"a": "b"}, b"body", seconds=30))
    request = await to_thread(client.next_command)
    assert (request.code, request.ext, request.body) == (307, {"a": "b"}, b"body")
    assert request.serialization is Serialization.BINARY
    assert not request.is_response
    client.send(frames.encode(Command(0, 99, flag=1)))  # an answer to nothing
    client.reply(request, body=b"running")
    assert (await asking).body == b"running"
    connection.tell(40, {"consumerGroup": "g"})
    told = await to_thread(client.next_command)
    assert (told.code, told.ext, told.is_one_way) == (40, {"consumerGroup": "g"}, True)


async def test_a_client_that_does_not_answer_or_goes(client: RawClient, echo: Echo) -> None:
    (connection,) = echo.connections
    with pytest.raises(LateAnswerError, match=r"did not answer within 0\.01 s"):
        await connection.invoke(307, seconds=0.01)
    asking = asyncio.create_task(connection.invoke(307, seconds=30))
    await asyncio.sleep(0)
    client.close()
    with pytest.raises(NoAnswerError, match="is gone"):
        await asking


async def test_a_stream_without_sense_is_closed(client: RawClient) -> None:
    client.send(b"GET / HTTP/1.1\r\n\r\n")
    assert await to_thread(client.is_closed)


async def test_an_idle_connection_is_closed(server: RemotingServer, listener: tcp.Listener) -> None:
    server.idle_s = 0.5
    idle = RawClient(listener.port)
    idle.tell(0)  # wants no answer: the end may come before it
    assert await to_thread(idle.is_closed)
    idle.close()


# --- connections that we open ---------------------------------------------------------------------


async def test_questions_and_answers(listener: tcp.Listener, echo: Echo) -> None:
    connection = await connect(f"localhost:{listener.port}", 30)
    answer = await connection.invoke(9, {"a": "b"}, b"body", seconds=30)
    assert (answer.ext, answer.body) == ({"a": "b"}, b"body")
    asked = await echo.connections[0].invoke(40, seconds=30)
    assert asked.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    connection.close()


async def test_the_end_of_a_connection_is_told(listener: tcp.Listener, echo: Echo) -> None:
    lost = asyncio.Event()
    connection = await connect(listener.address, 30, lost=lost.set)
    await connection.invoke(0, seconds=30)
    asking = asyncio.create_task(connection.invoke(3, seconds=30))
    await asyncio.sleep(0)
    echo.connections[0].close()
    with pytest.raises(NoAnswerError, match="is gone"):
        await asking
    async with asyncio.timeout(30):
        await lost.wait()


@pytest.mark.parametrize(
    ("address", "says"),
    [(unused_address, "connect"), ("nonsense", "port"), ("name.invalid:9876", "name")],
    ids=["nobody there", "no port", "no such name"],
)
async def test_a_server_that_cannot_be_reached(address: str | Callable[[], str], says: str) -> None:
    with pytest.raises(UnreachableError, match=says):
        await connect(address if isinstance(address, str) else address(), 30)


async def test_tls(echo: Echo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layered, "HANDSHAKE_S", 60.0)
    authority = trustme.CA()
    ca, cert, key = (str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(ca)
    certificate.cert_chain_pems[0].write_to_path(cert)
    certificate.private_key_pem.write_to_path(key)
    server = RemotingServer(echo, tls=ServerTls(cert, key), tls_only=True)
    async with serving(server) as listener:
        address = f"localhost:{listener.port}"
        for context in (tls_to(ca, auth_server=True), tls_to("", auth_server=False)):
            connection = await connect(address, 30, tls=context)
            assert (await connection.invoke(9, body=b"x", seconds=30)).body == b"x"
            connection.close()
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await connect(address, 30, tls=tls_to("", auth_server=True))
    with pytest.raises(ConfigError):
        tls_to(str(tmp_path / "none.pem"), auth_server=True)


# --- what is written, and when --------------------------------------------------------------------


class Handler:
    """Notes what is asked, and answers as a test says; its ``hold`` and ``release`` gather."""

    def __init__(
        self, answer: Callable[[Connection, Command], Command | None] = lambda *_: None
    ) -> None:
        self.requests: list[Command] = []
        self.is_late = False
        self.held = 0
        self._answer = answer

    def handle(self, connection: Connection, request: Command) -> Command | None:
        self.requests.append(request)
        return self._answer(connection, request)

    def connected(self, connection: Connection) -> None:
        self.connection = connection

    def disconnected(self, connection: Connection) -> None: ...

    def answer_all(self) -> None:
        for request in self.requests:
            self.connection.send(request.answer(body=b"later"))

    def hold(self) -> None:
        self.held += 1

    def release(self) -> bool:
        self.held -= 1
        if self.is_late:
            asyncio.get_running_loop().call_soon(self.answer_all)
        else:
            self.answer_all()
        return self.is_late


def wide(_: object, request: Command) -> Command:
    """An answer at once."""
    return request.answer(body=b"wide")


class Wire(asyncio.Transport):
    """A transport that remembers what each write held; a narrow one is full after each."""

    def __init__(self, connection: Connection, is_narrow: bool = False) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False
        self._connection, self._is_narrow = connection, is_narrow
        connection.connection_made(self)

    def close(self) -> None:
        self.is_closed = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.writes.append(b"".join(list_of_data))
        if self._is_narrow:
            self._connection.pause_writing()

    def counts(self, word: bytes) -> list[int]:
        """The number of answers in each write."""
        return [written.count(word) for written in self.writes]

    def asks(self, count: int, rest: bytes = b"") -> None:
        """Requests are read together."""
        requests = (frames.encode(Command(0, number)) for number in range(count))
        self._connection.data_received(b"".join(requests) + rest)


async def test_answers_of_one_pass_leave_with_one_write() -> None:
    def later(connection: Connection, _: Command) -> None:
        if len(handler.requests) == 1:
            asyncio.get_running_loop().call_soon(handler.answer_all)
        connection.flush_soon()

    handler = Handler(later)
    wire = Wire(RemotingServer(handler)())
    wire.asks(2)
    await asyncio.sleep(0)
    assert wire.counts(b"later") == [2]


@pytest.mark.parametrize("is_late", [False, True])
async def test_what_was_read_is_answered_as_a_whole(is_late: bool) -> None:
    handler = Handler()
    handler.is_late = is_late
    wire = Wire(RemotingServer(handler, gatherer=handler)())
    wire.asks(2)
    assert handler.held == 0
    if is_late:
        assert wire.writes == []
        await asyncio.sleep(0)
    assert wire.counts(b"later") == [2]


async def test_what_was_read_before_rubbish_is_answered() -> None:
    handler = Handler()
    wire = Wire(RemotingServer(handler, gatherer=handler)())
    wire.asks(1, rest=bytes(8))
    assert handler.held == 0
    assert wire.counts(b"later") == [1]
    assert wire.is_closed


async def test_a_peer_that_reads_no_answers_gets_no_further_ones() -> None:
    handler = Handler(wide)
    wire = Wire(RemotingServer(handler)(), is_narrow=True)
    wire.asks(2 * TOGETHER_MAX + 1)
    await asyncio.sleep(0)
    assert len(handler.requests) == TOGETHER_MAX
    for _ in range(2):
        handler.connection.resume_writing()
        await asyncio.sleep(0)
    assert [request.opaque for request in handler.requests] == [*range(2 * TOGETHER_MAX + 1)]
    assert wire.counts(b"wide") == [TOGETHER_MAX, TOGETHER_MAX, 1]


async def test_a_request_to_be_taken_again_is_not_lost_for_those_behind_it() -> None:
    def full(connection: Connection, _: Command) -> None:
        """Take the first request again, at the second, whose answer the peer does not read."""
        if len(handler.requests) == 2:
            connection.pause_writing()
            connection.take_again(handler.requests[0])

    handler = Handler(full)
    Wire(RemotingServer(handler)(), is_narrow=True).asks(3)
    handler.connection.resume_writing()
    await asyncio.sleep(0)
    assert [request.opaque for request in handler.requests] == [0, 1, 0, 2]


async def test_a_large_answer_of_one_that_waits_does_not_take_its_turn_away() -> None:
    turns = MemoryQueue(Budget("--flag", 1))
    other = MemoryTurn(turns, lambda: None, lambda: None)
    other.hold(2 * SMALL)
    assert other.try_take(), "it is the first in line"
    handler = Handler(wide)
    Wire(RemotingServer(handler, answer_turns=turns, large_answers=(0,))()).asks(1)
    assert handler.requests == []
    handler.connection.send_large([bytes(2 * SMALL)], 2 * SMALL)  # to a request of before
    await asyncio.sleep(0)
    assert handler.requests == []
    other.hold(0)
    await asyncio.sleep(0)
    assert len(handler.requests) == 1


async def test_many_answers_leave_in_several_writes() -> None:
    wire = Wire(RemotingServer(Handler(wide))())
    wire.asks(TOGETHER_MAX + 1)
    assert wire.counts(b"wide") == [TOGETHER_MAX, 1]
