"""Connections of a blocking client on their way: nobody waits for a server that is gone."""

from __future__ import annotations

import errno
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import SECOND
from penstock.rocketmq.client import Config, NotConnected
from penstock.rocketmq.client.blocking.dialling import Dialling
from penstock.rocketmq.client.blocking.hub import BlockingHub
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.testing.clock import FakeClock

ASKED = RequestCode.GET_BROKER_CONFIG


def address_of(server: socket.socket) -> str:
    """Its ``ip:port``."""
    host, port = server.getsockname()[:2]
    return f"{host}:{port}"


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


@contextmanager
def answering(context: ssl.SSLContext | None = None) -> Iterator[socket.socket]:
    """A server that answers the requests of one connection, over TLS if there is a context."""

    def serve() -> None:
        reader = frames.FrameReader()
        with server, ExitStack() as stack:
            connection = stack.enter_context(server.accept()[0])
            if context is not None:
                connection = stack.enter_context(context.wrap_socket(connection, server_side=True))
            while data := connection.recv(1 << 16):
                reader.feed(data)
                for command in reader.next_commands(10):
                    connection.sendall(frames.encode(command.answer(0)))

    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    yield server
    thread.join()


def hub_of(clock: Clock = SYSTEM_CLOCK, **options: Any) -> BlockingHub:
    """A hub that is patient unless ``options`` say otherwise."""
    patient: dict[str, Any] = {"connect_timeout": 60.0, "request_timeout": 60.0}
    config = Config(namesrv_addr="127.0.0.1:1", **patient | options)
    return BlockingHub(config, clock, None)


def test_a_server_that_is_gone_holds_up_no_other() -> None:
    with answering() as server, gone() as lost, closing(hub_of()) as hub:
        found = hub.asked(address_of(server), Command(ASKED, 0))
        missed = hub.asked(lost, Command(ASKED, 0))
        assert hub.wait_for(found).code == 0
        assert not missed.is_done, "it has been waited for"


def test_a_connection_is_given_up_in_time() -> None:
    with gone() as lost, closing(hub_of(connect_timeout=0.05)) as hub:
        with pytest.raises(NotConnected, match=r"no connection within 0\.05 s"):
            hub.run(hub.ask(lost, ASKED))
        assert not hub.connections


def test_a_server_that_is_silent_about_tls_is_given_up_in_time(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    options: dict[str, Any] = {
        "tls_enable": True, "tls_trust_cert_path": str(tmp_path / "ca.pem"),
    }  # fmt: skip
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        closing(hub_of(connect_timeout=0.2, **options)) as hub,
        pytest.raises(NotConnected, match=r"no connection within 0\.2 s"),
    ):
        hub.run(hub.ask(address_of(server), ASKED))


def test_the_addresses_of_a_name_are_tried_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as closed, answering() as server, closing(hub_of()) as hub:
        closed.bind(("127.0.0.1", 0))
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each.getsockname())
                 for each in (closed, server)]  # fmt: skip
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: list(found))
        assert hub.run(hub.ask("broker:10911", ASKED)).code == 0
        found.pop()
        with pytest.raises(NotConnected, match="connection refused"):
            hub.run(hub.ask("broker:10912", ASKED))


def test_what_asks_for_no_answer_waits_for_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, closing(hub_of()) as hub:
        hub.tell(address_of(server), RequestCode.SEND_MESSAGE_V2, {}, b"body")
        hub.drain(address_of(server))
        with server.accept()[0] as connection:
            assert b"body" in connection.recv(1 << 16)


def test_no_connection_is_late_because_the_program_did_something_else(tmp_path: Path) -> None:
    """A server's part of the handshake that is here is in time, however late somebody looks."""
    authority, clock = trustme.CA(), FakeClock()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    options: dict[str, Any] = {
        "tls_enable": True, "tls_trust_cert_path": str(tmp_path / "ca.pem"),
    }  # fmt: skip
    with answering(context) as server, closing(hub_of(clock, **options)) as hub:
        found = hub.asked(address_of(server), Command(ASKED, 0))
        hub._dial_all()
        clock.advance(100 * SECOND)
        hub.work(0)
        for dialling in hub._dialling.values():  # unless the server was as quick
            select.select([dialling.socket], [], [], 60)
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

    def interrupted(_: Dialling) -> None:
        raise KeyboardInterrupt

    with socket.create_server(("127.0.0.1", 0)) as server, closing(hub_of()) as hub:
        missed = hub.asked(address_of(server), Command(ASKED, 0))
        with monkeypatch.context() as signal:
            signal.setattr(Dialling, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                hub.wait_for(missed)
        assert isinstance(missed.error, NotConnected)
        assert not hub._dialling
        hub.asked(address_of(server), Command(ASKED, 0))
        (state,) = hub.connections.values()
        while not state.is_open:
            hub.work(None)


def test_an_address_of_a_family_that_the_system_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where IPv6 is switched off, and the name has addresses of both families."""
    make = socket.socket

    def made(family: int, *more: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return make(family, *more)

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr(socket, "socket", made)
        with closing(hub_of()) as hub:
            hub.asked(f"localhost:{port}", Command(ASKED, 0))
            hub.work(0)
            (state,) = hub.connections.values()
            ends = time.monotonic() + 60
            while not state.is_open:
                assert time.monotonic() < ends
                hub.work(0.05)
