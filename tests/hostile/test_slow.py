"""Clients that send a byte now and then: they hold nothing up and are cut off in the end."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress

import pytest

from tools.harness.streams import exactly

from .conftest import (
    IMPATIENT,
    Victim,
    ask,
    publish,
    read_frame,
    read_to_end,
    running,
    wait_until,
)


def test_a_silent_client_and_one_that_dribbles_its_magic_are_cut_off() -> None:
    with running(IMPATIENT) as victim:
        with victim.connect(b"") as silent, victim.connect(b" ") as dribbling:
            with suppress(ConnectionError):  # it is cut off already
                dribbling.sendall(b" ")
            assert read_to_end(silent) == read_to_end(dribbling) == b""
        victim.check_alive()


@pytest.mark.parametrize("stream", [b"NOP\n" + publish("slow", b"body"), b"SUB slow c\nRDY 1\n"])
def test_a_byte_at_a_time_is_understood(victim: Victim, stream: bytes) -> None:
    with victim.connect() as sock:
        for byte in stream:
            sock.sendall(bytes([byte]))
            time.sleep(0.002)
        assert read_frame(sock) == (0, b"OK")
    victim.check_alive()


def test_silence_within_a_body_ends_with_the_heartbeat(victim: Victim) -> None:
    """NSQ's rule: two heartbeat intervals from the start of a command to the end of its body."""
    identify = b'IDENTIFY\n\0\0\0\x1b{"heartbeat_interval":1000}'
    with victim.connect() as sock:  # both at once: silence between them would end it as well
        assert ask(sock, identify + b"PUB slow\n\0\0\0\x10") == b"OK"
        for _ in range(3):
            with suppress(ConnectionError):  # it is ended already
                sock.sendall(b"x")
            time.sleep(0.5)
        assert read_frame(sock) == (1, b"E_BAD_MESSAGE PUB failed to read message body")
        assert read_to_end(sock) == b""
    victim.check_alive()


def test_slow_requests_hold_up_nobody(victim: Victim, stack: ExitStack) -> None:
    head = b"POST /pub?topic=slow HTTP/1.1\r\nHost: h\r\n"
    slow = [stack.enter_context(victim.connect_http(head[: 5 + n % 30])) for n in range(50)]
    slow += [
        stack.enter_context(victim.connect_http(head + b"Content-Length: 9\r\n\r\nabc"))
        for _ in range(50)
    ]
    slow += [
        stack.enter_context(
            victim.connect_http(head + b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc")
        )
        for _ in range(50)
    ]
    started = time.monotonic()
    for _ in range(20):
        victim.check_alive()
    assert time.monotonic() - started < 120
    for sock in slow[50:100]:
        sock.sendall(b"defghi")
        assert exactly(sock, 15) == b"HTTP/1.1 200 OK"


def test_half_closed_connections_get_their_answers_and_go(victim: Victim) -> None:
    import socket

    before = victim.open_files
    request = b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n"
    for port, stream, answer in (
        (victim.daemon.tcp_port, b"  V2" + publish("half", b"x") * 5, b"OK"),
        (victim.daemon.tcp_port, b"  V2PUB half\n\0\0\0\5ab", b"E_BAD_MESSAGE"),
        (victim.daemon.tcp_port, b"  V2SUB half c\nRDY 1\n", b"OK"),
        (victim.daemon.tcp_port, b" ", b""),
        (victim.daemon.http_port, request * 3, b"OK"),
        (victim.daemon.http_port, request[:20], b""),
    ):
        with victim._open(port, stream) as sock:
            sock.shutdown(socket.SHUT_WR)
            assert answer in read_to_end(sock)
    assert wait_until(lambda: victim.open_files <= before + 4)
    victim.check_alive()
