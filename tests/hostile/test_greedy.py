"""Clients that want more than their share: sizes beyond the limits, and answers nobody reads."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import ExitStack

import pytest

from penstock.nsq.protocol.encode import multi_publish

from .conftest import (
    Victim,
    ask,
    publish,
    read_frame,
    read_to_end,
    running,
    send_until_blocked,
)

MB = 1024 * 1024
HUGE = 300 * MB
"""What a client tries to push; nsqd must have stopped listening long before."""
GROWTH_MAX = 48 * MB
"""What one such client may cost: write buffers of 2 MB, commands held of 8 MB, and copies."""


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (b"PUB big\n\x7f\xff\xff\xff", b"E_BAD_MESSAGE PUB message too big 2147483647 > 65536"),
        (b"PUB big\n\xff\xff\xff\xff", b"E_BAD_MESSAGE PUB invalid message body size -1"),
        (b"DPUB big 1\n\x00\x01\x00\x01", b"E_BAD_MESSAGE DPUB message too big 65537 > 65536"),
        (b"MPUB big\n\x7f\xff\xff\xff", b"E_BAD_BODY MPUB body too big 2147483647 > 262144"),
        (b"MPUB big\n\0\0\0\x08\x7f\xff\xff\xff", b"E_BAD_BODY MPUB invalid message count"),
        (b"IDENTIFY\n\x00\x04\x00\x01", b"E_BAD_BODY IDENTIFY body too big 262145 > 262144"),
        (b"AUTH\n\x80\x00\x00\x00", b"E_BAD_BODY AUTH invalid body size -2147483648"),
    ],
)
def test_a_size_beyond_the_limit_is_refused_before_its_body(
    victim: Victim, command: bytes, answer: bytes
) -> None:
    with victim.connect() as sock:
        sock.sendall(command)
        kind, data = read_frame(sock)
        assert (kind, data[: len(answer)]) == (1, answer)
        assert read_to_end(sock) == b""


def test_a_line_without_end_is_cut_off(victim: Victim) -> None:
    with victim.connect() as sock:
        sent, _ = send_until_blocked(victim, sock, b"PUB " * 4096, HUGE)
        assert sent < 16 * MB
        assert read_to_end(sock) == b""
    victim.check_alive()


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        (b"Content-Length: 99999999999\r\n\r\n", b"x" * 65536, b"413"),
        (b"Content-Length: -1\r\n\r\n", b"", b"400"),
        (b"Content-Length: 99999999999999999999999\r\n\r\n", b"", b"400"),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n", b"413"),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\nab\r\n", b"413"),
        (b"Transfer-Encoding: chunked\r\n\r\n2;", b"x" * 65536, b"4"),
        (b"X: ", b"y" * 65536, b"431"),
        (b"", b"A: b\r\n" * 10000, b"431"),
    ],
)
def test_a_request_without_end_is_refused(
    victim: Victim, head: bytes, body: bytes, status: bytes
) -> None:
    before = victim.rss
    with victim.connect_http(b"POST /pub?topic=big HTTP/1.1\r\nHost: h\r\n" + head) as sock:
        if body:  # it is read away for a moment, so that the answer arrives
            _, blocked = send_until_blocked(victim, sock, body, 100 * HUGE)
            assert not blocked
        answer = read_to_end(sock)
        assert not answer or answer.startswith(b"HTTP/1.1 " + status)
    assert victim.rss - before < GROWTH_MAX
    victim.check_alive()


IDENTIFY = b'IDENTIFY\n\0\0\0\x1c{"feature_negotiation":true}'


@pytest.mark.parametrize(
    "commands",
    [
        publish("unread", b"x") * 1000,
        (publish("unread", b"x") + IDENTIFY) * 1000,  # an answer that has to wait for another
        IDENTIFY * 1000,
    ],
    ids=["PUB", "PUB and IDENTIFY", "IDENTIFY"],
)
def test_who_reads_no_answers_is_not_heard_any_more(commands: bytes) -> None:
    with running() as victim:
        victim.check_alive()
        before = victim.rss
        with victim.connect_slowly_reading(victim.daemon.tcp_port, b"  V2") as sock:
            sent, blocked = send_until_blocked(victim, sock, commands, HUGE)
            assert blocked, f"{sent} bytes were taken"
            assert victim.rss - before < GROWTH_MAX
            victim.check_alive()


def test_who_reads_no_http_answers_is_not_heard_any_more(victim: Victim) -> None:
    before = victim.rss
    request = b"GET /stats?format=json HTTP/1.1\r\nHost: h\r\n\r\n"
    with victim.connect_slowly_reading(victim.daemon.http_port) as sock:
        _, blocked = send_until_blocked(victim, sock, request * 100, HUGE)
        assert blocked
        assert victim.rss - before < GROWTH_MAX
        victim.check_alive()


def test_a_consumer_that_reads_nothing_holds_no_memory_and_nobody_up(stack: ExitStack) -> None:
    with running("--mem-queue-size=100", "--max-rdy-count=2500") as victim:
        stalled = [
            stack.enter_context(victim.connect_slowly_reading(victim.daemon.tcp_port, b"  V2"))
            for _ in range(5)
        ]
        for number, sock in enumerate(stalled):
            assert ask(sock, f"SUB flood c{number}\n".encode()) == b"OK"
            sock.sendall(b"RDY 2500\n")
        healthy = stack.enter_context(victim.connect())
        assert ask(healthy, b"SUB flood healthy\n") == b"OK"
        healthy.sendall(b"RDY 2500\n")
        before = victim.rss
        _flood(victim, healthy, megabytes=150)
        # 32 MB of blocks in the cache, and for each the buffer of one connection.
        assert victim.rss - before < 32 * MB + 5 * 4 * MB + GROWTH_MAX
        victim.check_alive()


def _flood(victim: Victim, consumer: socket.socket, megabytes: int) -> None:
    """Publish so much, and have one consumer receive and finish it all."""

    def produce() -> None:
        with victim.connect() as producer:
            for _ in range(megabytes):
                assert ask(producer, multi_publish("flood", [b"x" * 65536] * 16)) == b"OK"

    thread = threading.Thread(target=produce)
    thread.start()
    received = 0
    while received < 16 * megabytes:
        kind, data = read_frame(consumer)
        assert kind == 2
        consumer.sendall(b"FIN %b\n" % data[10:26])
        received += 1
    thread.join()


def test_topics_until_no_file_is_left() -> None:
    """Refusals in plain words, the topics that are there go on, and so does HTTP."""
    with running(files=200) as victim:
        refused = 0
        victim.check_alive()
        with victim.connect() as kept:
            for number in range(300):
                with victim.connect() as sock:
                    sock.sendall(publish(f"topic-{number}", b"x"))
                    kind, data = read_frame(sock)
                    assert kind == 0 or data.startswith(b"E_PUB_FAILED PUB failed "), data
                    refused += kind
                assert ask(kept, publish("topic-0", b"y")) == b"OK"
        assert 0 < refused < 300
        victim.check_alive()


def test_sizes_beyond_the_limit_of_a_frame_are_only_numbers(victim: Victim) -> None:
    """An announced size costs nothing until its bytes come."""
    before = victim.rss
    with ExitStack() as opened:
        for _ in range(200):
            sock = opened.enter_context(victim.connect())
            sock.sendall(b"MPUB t\n" + struct.pack(">i", 262144) + b"\0\0\0\1" + b"\0\0\xff\xff")
        victim.check_alive()
        assert victim.rss - before < GROWTH_MAX
