"""Bytes without sense on every port, and requests whose parameters have none."""

from __future__ import annotations

import http.client
import random
import socket
from collections.abc import Iterator

import pytest

from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.testing.daemons import Daemon, run_nsqlookupd

from .conftest import PATIENCE_S, Victim, read_to_end

ROUNDS = 150


def noise(dice: random.Random, starts: list[bytes]) -> Iterator[bytes]:
    for number in range(ROUNDS):
        size = dice.choice((1, 10, 300, 20_000))
        yield starts[number % len(starts)] + dice.randbytes(size)


def send_noise(port: int, starts: list[bytes]) -> None:
    """Each piece on a connection of its own; its answer is read, and the end is awaited."""
    for data in noise(random.Random(port % 2), starts):
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as sock:
            try:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
            except OSError:
                continue
            read_to_end(sock)


def test_noise_on_the_ports_of_nsqd(victim: Victim) -> None:
    commands = [b"SUB a b\n", b"PUB \x1b[31m\n", b"\xff\xfe\n", b"IDENTIFY\n\0\0\0\x10", b"FIN "]
    send_noise(victim.daemon.tcp_port, [b"", *(MAGIC_V2 + command for command in commands)])
    send_noise(victim.daemon.http_port, [b"", b"GET /", b"POST /pub HTTP/1.1\r\n", b"\x16\x03\x01"])
    victim.check_alive()


def test_noise_on_the_ports_of_nsqlookupd() -> None:
    with run_nsqlookupd() as daemon:
        lines = [b"PING\n", b"REGISTER \xff\n", b"IDENTIFY\n\0\0\0\x10", b"\xff\xff\n"]
        send_noise(daemon.tcp_port, [b"", *(b"  V1" + line for line in lines)])
        send_noise(daemon.http_port, [b"", b"GET /lookup?topic=", b"POST /"])
        assert get(daemon, "GET", "/ping")[0] == 200
        assert "Traceback" not in daemon.log()


def get(daemon: Daemon, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=PATIENCE_S)
    try:
        connection.request(method, target, body or None)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


NUMBERS = ["9" * 5000, "-1", "%ff", "1e9", "", "0x10", "%00", "%D9%A1"]
WORDS = ["%ff%fe", "%00", "a" * 3000, "", "%F0%9F%92%A9", "..%2f..%2fx", "%ed%a0%80"]

REQUESTS = [
    ("POST", "/pub?topic=t&defer={}", NUMBERS, b"x"),
    ("POST", "/mpub?topic=t&binary={}", WORDS, b"x"),
    ("POST", "/mpub?topic=t&binary=true&defer={}", NUMBERS, b"\0\0\0\1\0\0\0\1x"),
    ("POST", "/pub?topic={}", WORDS, b"x"),
    ("POST", "/topic/create?topic={}", WORDS, b""),
    ("POST", "/topic/delete?topic={}", WORDS, b""),
    ("POST", "/channel/create?topic=t&channel={}", WORDS, b""),
    ("POST", "/channel/pause?topic={}&channel=c", WORDS, b""),
    ("GET", "/stats?format={}", WORDS, b""),
    ("GET", "/stats?format=json&topic={}", WORDS, b""),
    ("GET", "/stats?topic=t&channel={}&include_clients=x", WORDS, b""),
    ("GET", "/log/fetch?topic=t&offset={}", NUMBERS, b""),
    ("GET", "/log/fetch?topic=t&offset=0&max_bytes={}", NUMBERS, b""),
    ("GET", "/log/fetch?topic=t&offset=0&queue={}", NUMBERS, b""),
    ("GET", "/log/offset_at?topic=t&timestamp_ns={}", NUMBERS, b""),
    ("GET", "/log/offsets?topic={}", WORDS, b""),
    ("POST", "/log/commit?topic=t&group={}", WORDS, b'{"offsets":{"0":0}}'),
    ("GET", "/log/offsets?topic=t&topic={}", WORDS, b""),
    ("POST", "/log/commit?group={}", WORDS, b'{"topics":{"t":{},"\\u0000":{"0":0}}}'),
    ("POST", "/log/commit?topic=t&group=g&owner={}", WORDS, b""),
    ("POST", "/log/group/delete?topic=t&group={}", WORDS, b""),
    ("POST", "/log/group/delete?group={}", WORDS, b'{"topics":["t","","\xf0\x9f\x92\xa9"]}'),
    ("GET", "/config/{}", WORDS[:3], b""),
    ("PUT", "/config/log_level", [""], b"\xff"),
    ("PUT", "/config/nsqlookupd_tcp_addresses", [""], b'["\\ud800:1", "\\u0000", ""]'),
    ("PUT", "/config/nsqlookupd_tcp_addresses", [""], b"[" * 60_000),
    ("PUT", "/config/nsqlookupd_tcp_addresses", [""], b"[]"),
    ("PUT", "/debug/setblockrate?rate={}", NUMBERS + WORDS, b""),
    ("GET", "/debug/pprof/{}", WORDS[:3], b""),
    ("GET", "/{}", WORDS, b""),
]

BODIES = [
    b"\xff",
    b'{"offsets":{"0":"\xff"}}',
    b'{"offsets":{"0":99999999999999999999}}',
    b"[" * 9000,
    b'{"offsets":{"\xff":1}}',
    b'{"offsets":{"0":-1}}',
    b'{"x":' + b"[" * 9000,
    b"null",
]


@pytest.mark.parametrize(("method", "target", "values", "body"), REQUESTS)
def test_parameters_without_sense_are_refused_in_plain_words(
    victim: Victim, method: str, target: str, values: list[str], body: bytes
) -> None:
    get(victim.daemon, "POST", "/pub?topic=t", b"x")
    for value in values:
        status, answer = get(victim.daemon, method, target.format(value), body)
        assert status < 500, (value, answer)
    victim.check_alive()


def test_bodies_without_sense_are_refused_in_plain_words(victim: Victim) -> None:
    get(victim.daemon, "POST", "/pub?topic=t", b"x")
    for body in BODIES:
        for target in ("/log/commit?topic=t&group=g", "/log/commit?group=g", "/log/offsets",
                       "/log/group/delete?group=g", "/topic/config?topic=t"):  # fmt: skip
            status, answer = get(victim.daemon, "POST", target, body)
            assert status == 400, (target, body, answer)
    victim.check_alive()
