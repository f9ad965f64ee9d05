"""The network of a blocking client: connections on their way, signals, forks, the end."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import SECOND
from penstock.rocketmq.client import Message, NotConnected
from penstock.rocketmq.client.blocking import Producer, PushConsumer
from penstock.rocketmq.client.blocking.hub import BlockingHub
from penstock.rocketmq.client.blocking.pending_connection import PendingConnection
from penstock.rocketmq.client.errors import ClientError, NoNameServer, Stopped
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.testing.clock import FakeClock
from tests.programs.rocketmq.conftest import serving
from tools.harness.ports import unused_address
from tools.harness.rocketmq.servers import QUICK, SECONDS, Servers

ASKED = RequestCode.GET_BROKER_CONFIG


def hub_of(clock: Clock = SYSTEM_CLOCK, **options: Any) -> BlockingHub:
    """A hub that is patient unless ``options`` say otherwise."""
    config = replace(QUICK, namesrv_addr="127.0.0.1:1", **options)
    return BlockingHub(config, clock, None)


def answer_all(connection: socket.socket) -> None:
    """Answer the requests of a connection."""
    reader = frames.FrameReader()
    while data := connection.recv(1 << 16):
        reader.feed(data)
        for command in reader.next_commands(10):
            connection.sendall(frames.encode(command.answer(0)))


def address_of(server: socket.socket) -> str:
    """Its ``ip:port``."""
    host, port = server.getsockname()[:2]
    return f"{host}:{port}"


@contextmanager
def silent() -> Iterator[socket.socket]:
    """A server that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@contextmanager
def gone() -> Iterator[str]:
    """The address of a server whose system drops what would connect: its backlog is full."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield address_of(server)


def until_open(hub: BlockingHub) -> None:
    """Work until its one connection is there."""
    (state,) = hub.connections.values()
    ends = time.monotonic() + SECONDS
    while not state.is_open:
        assert time.monotonic() < ends
        hub.work(0.05)


def found_at(monkeypatch: pytest.MonkeyPatch, *places: tuple[int, Any]) -> list[Any]:
    """The look-up of any name gives these families and addresses."""
    found = [(family, socket.SOCK_STREAM, 6, "", place) for family, place in places]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: list(found))
    return found


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, dict[str, Any]]:
    """A server's context, and a client's options."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context, {"tls_enable": True, "tls_trust_cert_path": str(tmp_path / "ca.pem")}


# --- on their way: nobody waits for a server that is gone -----------------------------------------


def test_a_server_that_is_gone_holds_up_no_other() -> None:
    with serving(answer_all) as server, gone() as lost, closing(hub_of()) as hub:
        found = hub.asked(server, Command(ASKED, 0))
        missed = hub.asked(lost, Command(ASKED, 0))
        assert hub.wait_for(found).code == 0
        assert not missed.is_done, "it has been waited for"


def test_a_connection_is_given_up_in_time(tls: tuple[object, dict[str, Any]]) -> None:
    """Of a server that is gone, and of one that is silent about TLS."""
    with gone() as lost, silent() as server:
        for address, options in ((lost, {}), (address_of(server), tls[1])):
            with closing(hub_of(connect_timeout=0.2, **options)) as hub:
                with pytest.raises(NotConnected, match=r"no connection within 0\.2 s"):
                    hub.run(hub.ask(address, ASKED))
                assert not hub.connections


def test_the_addresses_of_a_name_are_tried_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as closed, serving(answer_all) as server, closing(hub_of()) as hub:
        closed.bind(("127.0.0.1", 0))
        open_ = ("127.0.0.1", int(server.rpartition(":")[2]))
        places = ((socket.AF_INET, place) for place in (closed.getsockname(), open_))
        found = found_at(monkeypatch, *places)
        assert hub.run(hub.ask("broker:10911", ASKED)).code == 0
        found.pop()
        with pytest.raises(NotConnected, match="connection refused"):
            hub.run(hub.ask("broker:10912", ASKED))


def test_an_address_of_a_family_that_the_system_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where IPv6 is switched off, and the name has addresses of both families."""
    make = socket.socket

    def made(family: int, *more: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return make(family, *more)

    with silent() as server:
        port = server.getsockname()[1]
        places = (socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))
        found_at(monkeypatch, *places)
        monkeypatch.setattr(socket, "socket", made)
        with closing(hub_of()) as hub:
            hub.asked(f"localhost:{port}", Command(ASKED, 0))
            hub.work(0)
            until_open(hub)


def test_what_asks_for_no_answer_waits_for_the_connection() -> None:
    with silent() as server, closing(hub_of()) as hub:
        hub.tell(address_of(server), RequestCode.SEND_MESSAGE_V2, {}, b"body")
        hub.drain(address_of(server))
        with server.accept()[0] as connection:
            assert b"body" in connection.recv(1 << 16)


def test_no_connection_is_late_because_the_program_did_something_else(
    tls: tuple[ssl.SSLContext, dict[str, Any]],
) -> None:
    """A server's part of the handshake that is here is in time, however late somebody looks."""
    context, options = tls
    clock = FakeClock()

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            answer_all(secure)

    with serving(serve) as server, closing(hub_of(clock, **options)) as hub:
        found = hub.asked(server, Command(ASKED, 0))
        hub._connect_all()
        clock.advance(100 * SECOND)
        hub.work(0)
        for pending in hub._pending.values():  # unless the server was as quick
            select.select([pending.socket], [], [], 60)
            clock.advance(100 * SECOND)
        assert hub.wait_for(found).code == 0


def test_a_server_that_is_gone_is_given_up_however_seldom_the_client_is_called() -> None:
    clock = FakeClock()
    with gone() as lost, closing(hub_of(clock)) as hub:
        missed = hub.asked(lost, Command(ASKED, 0), seconds=1000)
        hub.work(0)
        clock.advance(61 * SECOND)
        hub.work(0)
        assert isinstance(missed.error, NotConnected)
        assert "no connection within 60 s" in str(missed.error)


def test_a_hub_is_closed_while_it_connects() -> None:
    with gone() as lost:
        hub = hub_of()
        missed = hub.asked(lost, Command(ASKED, 0))
        hub.work(0)
        hub.close()
        assert missed.is_done


@pytest.mark.parametrize("step", ["_begin", "go_on"])
def test_nobody_waits_for_a_connection_in_whose_midst_a_signal_came(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handler has raised, after a look-up of the name that took too long for instance."""

    def interrupted(_: PendingConnection) -> None:
        raise KeyboardInterrupt

    with silent() as server, closing(hub_of()) as hub:
        missed = hub.asked(address_of(server), Command(ASKED, 0))
        with monkeypatch.context() as signal:
            signal.setattr(PendingConnection, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                hub.wait_for(missed)
        assert isinstance(missed.error, NotConnected)
        assert not hub._pending
        hub.asked(address_of(server), Command(ASKED, 0))
        until_open(hub)


# --- waiting --------------------------------------------------------------------------------------


def test_a_page_that_is_no_http_is_told_as_any_other_that_cannot_be_read() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"-ERR unknown command\r\n")

    with serving(serve) as address:
        config = replace(QUICK, namesrv_url=f"http://{address}/nsaddr")
        with (
            Producer("PG", config=config) as producer,
            pytest.raises(NoNameServer, match="none is listed"),
        ):
            producer.send(Message("T", b"x"))


@pytest.mark.parametrize("what", ["connect", "sleep"])
def test_no_wait_goes_on_after_what_it_waits_for(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would only end with the next timer: after half a minute, or never."""
    waits: list[float | None] = []
    with closing(hub_of()) as hub:
        select = hub._selector.select

        def selecting(seconds: float | None = None) -> object:
            waits.append(seconds)
            return select(0)

        monkeypatch.setattr(hub._selector, "select", selecting)
        if what == "connect":
            with pytest.raises(NotConnected):
                hub.run(hub.ask(unused_address(), ASKED))
        else:
            hub.wait_for(hub.sleep(0))
    assert set(waits) == {0}


def test_what_asks_for_no_answer_waits_for_a_server_that_takes_no_more() -> None:
    drained: list[int] = []
    read: list[int] = []

    def serve(connection: socket.socket) -> None:
        while data := connection.recv(1 << 20):
            read.append(len(data))

    with serving(serve) as address, closing(hub_of()) as hub:
        for _ in range(400):
            hub.tell(address, RequestCode.SEND_MESSAGE_V2, {}, bytes(100_000))
            hub.drain(address)
            drained.append(hub.connections[address].nbytes_said)
        while any(link.is_behind for link in hub._links.values()):
            hub.work(None)  # the last ones may be less than what is waited for
    assert max(drained) < 2 << 20
    assert sum(read) >= 400 * 100_000


@pytest.mark.parametrize("is_soon", [False, True])
def test_a_connection_that_ended_while_nobody_looked_is_not_used(is_soon: bool) -> None:
    """A server lets go of a client that is silent for two minutes: a program that seldom sends."""

    def answer_once(connection: socket.socket) -> None:
        reader = frames.FrameReader()
        while (request := reader.next_command()) is None:
            data = connection.recv(1 << 16)
            if not data:
                return
            reader.feed(data)
        connection.sendall(frames.encode(request.answer(0)))

    with serving(answer_once, times=2) as address:
        hub = hub_of()
        hub.run(hub.ask(address, ASKED))
        (link,) = hub._links.values()
        select.select([link.socket], [], [], 60)
        hub._left_ns -= 120 * SECOND
        if is_soon:
            hub.catch_up()
            assert hub.wait_for(Job(hub.ask(address, ASKED))).code == 0
        else:
            assert hub.run(hub.ask(address, ASKED)).code == 0
        hub.close()
        hub.catch_up()  # of no use any more, and no harm


# --- signals, forks, coroutines -------------------------------------------------------------------


class Interrupted:
    """A socket, and a signal that comes while it sends or receives; its handler raises."""

    def __init__(self, real: socket.socket, what: str) -> None:
        self.real = real
        self.what = what

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def send(self, data: memoryview) -> int:
        if self.what == "recv":
            return self.real.send(data)
        self.real.send(data[:10])
        raise KeyboardInterrupt

    def recv(self, size: int) -> bytes:
        self.real.recv(5)
        raise KeyboardInterrupt


@pytest.mark.parametrize("what", ["send", "recv"])
def test_nothing_follows_half_a_frame_after_a_signal(what: str) -> None:
    """What is left would be taken for the rest of it, and stored in a message."""
    with silent() as server, closing(hub_of()) as hub:
        address = address_of(server)
        first = Job(hub.ask(address, ASKED))
        until_open(hub)
        with server.accept()[0] as connection:
            whole = len(connection.recv(1000))
            (link,) = hub._links.values()
            link.socket = Interrupted(link.socket, what)  # type: ignore[assignment]
            if what == "recv":
                connection.sendall(b"half an answer")
            second = Job(hub.ask(address, ASKED))
            with pytest.raises(KeyboardInterrupt):
                hub.wait_for(second)
            for lost in (first, second):
                assert isinstance(lost.error, ClientError)
            assert address not in hub.connections
            rest = b""
            with contextlib.suppress(ConnectionResetError):  # what came was not read
                while data := connection.recv(1000):
                    rest += data
            assert len(rest) == (10 if what == "send" else whole)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_takes_no_answers_of_its_parent(servers: Servers) -> None:
    with Producer("PG", servers.address, config=QUICK) as producer:
        producer.send(Message("BForked", b"x"))
        child = os.fork()
        if not child:
            told = ""
            try:
                producer.send(Message("BForked", b"y"))
            except ClientError as error:
                told = str(error)
            producer.close()
            os._exit(0 if "make one in each process" in told else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.send(Message("BForked", b"z")).offset_id


def test_a_coroutine_is_no_function_of_a_blocking_client() -> None:
    async def check() -> int:
        return 8

    with closing(hub_of()) as hub:
        assert hub.call(lambda: 5).result() == 5
        coroutine = check()
        assert isinstance(hub.call(lambda: coroutine).error, TypeError)
        coroutine.close()


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", [True, False])
def test_what_was_said_is_sent_before_the_end(reads: bool) -> None:
    """A one-way send is all that such a program may do: nobody else would wait for it."""
    found: list[int] = []

    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        ended.wait(0.3 if reads else SECONDS)
        while reads and (data := connection.recv(1 << 16)):
            found.append(len(data))

    ended = threading.Event()
    with serving(serve) as address:
        hub = hub_of(send_msg_timeout=SECONDS if reads else 0.1)
        hub.tell(address, RequestCode.SEND_MESSAGE_V2, {}, b"x" * 12_000_000)
        until_open(hub)
        hub.work(0)
        hub.close()
        ended.set()
    assert sum(found) > 12_000_000 or not reads


@pytest.mark.parametrize("is_started", [False, True])
def test_a_client_that_was_closed_says_so(servers: Servers, is_started: bool) -> None:
    consumer = PushConsumer("G-Closed", servers.address, config=QUICK)
    consumer.subscribe("Closed")
    if is_started:
        consumer.start()
    consumer.close()
    for threads in (0, 2):
        with pytest.raises(Stopped):
            consumer.run(print, threads=threads)
    producer = Producer("PG", servers.address, config=QUICK)
    producer.close()
    with pytest.raises(Stopped):
        producer.work()


def test_ctrl_c_ends_the_wait_for_the_rest_but_not_the_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    hub = hub_of()
    monkeypatch.setattr(hub, "_send_rest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        hub.close()
    assert hub.is_closed
    with pytest.raises(ValueError, match="closed"):
        hub._selector.select(0)
