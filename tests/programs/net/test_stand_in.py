"""Answers for an event loop that is held up, and connections that are handed to it afterwards."""

from __future__ import annotations

import asyncio
import http.client
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.http.server.message import Request, Response, text
from penstock.net.http.server.router import Router
from penstock.net.http.server.service import HttpServer
from penstock.net.tcp import listen
from penstock.net.vitals import stand_in
from penstock.net.vitals.stand_in import HELD_UP_NS, StandIn
from penstock.net.vitals.vitals import Vitals

TIMEOUT_S = 30
Answer = tuple[int, bytes]


class Program:
    """A program with a port, whose loop is held up while a test waits without it."""

    def __init__(self) -> None:
        self.health: Callable[[], str] = lambda: "OK"
        self.vitals = Vitals("program", SYSTEM_CLOCK, lambda: self.health())
        self.held_up_since_ns = 0
        self.stand_in = StandIn(self.vitals, lambda: self.held_up_since_ns)
        self.published: list[bytes] = []
        self.port = 0

    def publish(self, request: Request) -> Response:
        self.published.append(request.body)
        return text("OK")

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """What is done within runs in the loop's thread: the loop does nothing else."""
        self.held_up_since_ns = SYSTEM_CLOCK.monotonic_ns() - HELD_UP_NS
        try:
            yield
        finally:
            self.held_up_since_ns = 0

    def connected(self, sent: bytes) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)
        client.sendall(sent)
        return client

    def ask(self, path: str) -> Answer:
        return read(self.connected(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode()))


def read(client: socket.socket) -> Answer:
    with client:
        response = http.client.HTTPResponse(client)
        response.begin()
        return response.status, response.read()


@pytest.fixture
async def program() -> AsyncIterator[Program]:
    program, router = Program(), Router()
    program.vitals.add_routes(router, metrics=True)
    router.add("POST", "/pub", program.publish)
    server = HttpServer(router, log=logging.getLogger())
    listener = await listen(server, "127.0.0.1:0", "HTTP")
    program.port = listener.port
    program.stand_in.listeners.append(listener)
    program.stand_in.start()
    yield program
    program.stand_in.stop()
    await listener.close()
    server.close_connections()
    for thread in threading.enumerate():
        if thread.name == "penstock-stand-in":
            await asyncio.to_thread(thread.join, TIMEOUT_S)
            assert not thread.is_alive()


async def test_who_asks_how_the_program_is_hears_it(program: Program) -> None:
    with program.held_up():
        assert program.ask("/live") == (200, b"OK")
        assert program.ask("/ping?verbose") == (200, b"OK")
        assert program.ask("/ready") == (200, b"OK")
        status, page = program.ask("/metrics")
        assert (status, b"penstock_ready 1" in page) == (200, True)
        program.health = lambda: "NOK - the disk"
        program.vitals.checks.append(lambda: ["NOK - the disk", "NOK - no lease"])
        assert program.ask("/ping") == (500, b"NOK - the disk")
        assert program.ask("/ready") == (503, b"NOK - the disk\nNOK - no lease")
        assert program.ask("/live") == (200, b"OK")


async def test_everything_else_waits_for_the_loop(program: Program) -> None:
    request = b"POST /pub HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
    with program.held_up():
        publisher = program.connected(request)
        silent = program.connected(b"")
        slow = program.connected(b"GET /li")
        gone = program.connected(b"")
        gone.close()
        assert program.ask("/live") == (200, b"OK"), "behind those"
        publisher.settimeout(0.01)
        with pytest.raises(TimeoutError):
            publisher.recv(1)
        publisher.settimeout(TIMEOUT_S)
    answers = asyncio.gather(*(asyncio.to_thread(read, each) for each in (publisher, silent, slow)))
    silent.sendall(b"GET /live HTTP/1.1\r\nHost: h\r\n\r\n")
    slow.sendall(b"ve HTTP/1.1\r\nHost: h\r\n\r\n")
    assert await asyncio.wait_for(answers, TIMEOUT_S) == [(200, b"OK")] * 3
    assert program.published == [b"body"]


async def test_a_page_that_cannot_be_made_is_left_to_the_loop(program: Program) -> None:
    """What it shows may change while it is read, as the loop goes on at any moment."""

    def changed() -> str:
        if threading.current_thread().name == "penstock-stand-in":
            raise RuntimeError("dictionary changed size during iteration")
        return "OK"

    program.health = changed
    with program.held_up():
        client = program.connected(b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n")
        assert program.ask("/live") == (200, b"OK")
    assert await asyncio.to_thread(read, client) == (200, b"OK")


async def test_the_connections_that_are_kept_are_bounded(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_in, "KEPT_MAX", 3)
    with program.held_up():
        clients = [program.connected(b"") for _ in range(3)]
        last = program.connected(b"GET /live HTTP/1.1\r\nHost: h\r\n\r\n")
        last.settimeout(2 * stand_in.LOOK_S)
        with pytest.raises(TimeoutError):
            last.recv(1)
        last.settimeout(TIMEOUT_S)
    assert await asyncio.to_thread(read, last) == (200, b"OK")
    for each in clients:
        each.sendall(b"GET /live HTTP/1.1\r\nHost: h\r\n\r\n")
        assert await asyncio.to_thread(read, each) == (200, b"OK")


async def test_a_loop_that_goes_on_is_not_stood_in_for(program: Program) -> None:
    """It writes all the time, and each write holds it up for a moment."""
    takers: set[str] = set()

    def health() -> str:
        takers.add(threading.current_thread().name)
        return "OK"

    program.health = health
    with program.held_up():
        assert program.ask("/ping") == (200, b"OK")
    assert takers == {"penstock-stand-in"}
    takers.clear()
    deadline = time.monotonic() + 2 * stand_in.LOOK_S
    while time.monotonic() < deadline:
        program.held_up_since_ns = SYSTEM_CLOCK.monotonic_ns()
        assert await asyncio.to_thread(program.ask, "/ping") == (200, b"OK")
    assert takers == {threading.current_thread().name}


async def test_clients_of_a_port_that_closes_meanwhile_are_let_go(program: Program) -> None:
    with program.held_up():
        client = program.connected(b"")
        assert program.ask("/live") == (200, b"OK")
    await program.stand_in.listeners[0].close()
    with client:
        assert await asyncio.to_thread(client.recv, 1) == b""
