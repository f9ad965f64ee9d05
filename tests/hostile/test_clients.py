"""Clients that flood, dribble, do not read, send nonsense or bombs, or come in crowds."""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from penstock.admin.admin_options import AdminOptions
from penstock.core.settings.options import Options
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.encode import MAGIC_V2, multi_publish
from penstock.nsq.protocol.snappy import SnappyLayer
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from penstock.testing.daemons import Daemon, run_nsqlookupd
from tools.harness.streams import exactly

from .conftest import (
    IMPATIENT,
    PATIENCE_S,
    Victim,
    ask,
    is_closed,
    publish,
    read_frame,
    read_to_end,
    running,
    send_until_blocked,
    wait_until,
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


# --- Clients that send a byte now and then: they hold nothing up and are cut off in the end ------


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


# --- Bytes without sense on every port, and requests whose parameters have none ------------------


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


# --- A few compressed bytes that become very many: they are taken a piece at a time, if at all ---


BOMB = 64 * MB
"""Bytes that a bomb decodes to, unless nsqd ends the connection before."""
BOMB_GROWTH_MAX = 32 * MB


def compressed_connection(sock: socket.socket, layer: str) -> None:
    """Ask for the layer, and read the OK that comes through it."""
    body = json.dumps({"feature_negotiation": True, layer: True}).encode()
    answer = json.loads(ask(sock, b"IDENTIFY\n" + struct.pack(">i", len(body)) + body))
    assert answer[layer] is True
    assert sock.recv(100)


def explode(sock: socket.socket, layer: str, start: bytes, filling: bytes, size: int) -> None:
    """Send ``start`` and then so much of ``filling``; the connection may end before."""
    coder = DeflateLayer(9) if layer == "deflate" else SnappyLayer()
    try:
        sock.sendall(coder.send(start))
        piece = filling * (MB // len(filling))
        for _ in range(size // MB):
            sock.sendall(coder.send(piece))
    except OSError:
        pass


@pytest.mark.parametrize("layer", ["deflate", "snappy"])
@pytest.mark.parametrize(
    ("start", "filling", "size"),
    [
        (b"PUB ", b"t" * 1024, BOMB),
        (b"PUB bomb\n" + struct.pack(">i", BOMB), bytes(1024), BOMB),
        (b"MPUB bomb\n" + struct.pack(">ii", MB, 200_000), b"\0\0\0\1x", BOMB),
        (b"NOP\n", b"NOP\n" * 256, 2 * MB),
        (b"", b"\n" * 1024, BOMB),
    ],
    ids=["line", "message", "MPUB", "NOP", "empty"],
)
def test_a_bomb_costs_no_memory(layer: str, start: bytes, filling: bytes, size: int) -> None:
    with running() as victim:
        victim.check_alive()
        before = victim.rss
        with victim.connect() as sock:
            compressed_connection(sock, layer)
            explode(sock, layer, start, filling, size)
            assert victim.rss - before < BOMB_GROWTH_MAX
        victim.check_alive()
        assert victim.rss - before < BOMB_GROWTH_MAX


def test_a_bomb_in_one_piece_leaves_time_for_others() -> None:
    """All of it lies in nsqd's hands at once, and is turned into commands bit by bit."""
    with running() as victim:
        victim.check_alive()
        before = victim.rss
        bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
        data = b"".join(bomb.compress(b"NOP\n" * (MB // 4)) for _ in range(16)) + bomb.flush(
            zlib.Z_SYNC_FLUSH
        )
        assert len(data) < MB // 4
        with victim.connect() as sock, victim.connect() as other:
            compressed_connection(sock, "deflate")
            sock.sendall(data)
            assert ask(other, publish("meanwhile", b"x")) == b"OK"
        assert victim.rss - before < BOMB_GROWTH_MAX
        victim.check_alive()


@pytest.mark.parametrize("layer", ["deflate", "snappy"])
def test_garbage_inside_a_layer_ends_the_connection(layer: str) -> None:
    with running() as victim:
        for garbage in (b"\xff" * 100, b"\xff\x06\x00\x00sNaPpY\x00\x05\x00\x00aaaaaaaaa" * 3):
            with victim.connect() as sock:
                compressed_connection(sock, layer)
                sock.sendall(garbage)
                assert read_to_end(sock) == b""
        victim.check_alive()


def test_a_layer_that_was_not_asked_for_is_garbage() -> None:
    with running() as victim, victim.connect() as sock:
        sock.sendall(SnappyLayer().send(b"NOP\n") + b"\n")
        assert read_frame(sock)[1].startswith(b"E_INVALID invalid command")
        assert read_to_end(sock) == b""
        victim.check_alive()


# --- Many connections: silent ones, storms of short ones, more than there are file handles -------


CROWD = 1000
STORM = 2000


def test_silent_connections_hold_up_nobody_and_are_cut_off() -> None:
    with running(IMPATIENT) as victim:
        victim.check_alive()
        before, rss = victim.open_files, victim.rss
        with ExitStack() as opened:
            crowd = [opened.enter_context(victim.connect(b"")) for _ in range(CROWD)]
            victim.check_alive()
            assert victim.rss - rss < CROWD * 40_000
            assert all(read_to_end(sock) == b"" for sock in crowd)
        assert wait_until(lambda: victim.open_files <= before)
        victim.check_alive()


def storm(victim: Victim, count: int) -> None:
    """Connections one after the other, each gone in another way."""
    for number in range(count):
        kind = number % 5
        if kind == 4:
            with victim.connect_http(b"GET /ping HTTP/1.1\r\nHost: h\r\n\r\n"):
                pass
            continue
        with victim.connect(
            (b"", b"  V", b"  V2", b"  V2SUB storm c#ephemeral\nRDY 5\n")[kind]
        ) as s:
            if kind == 2:
                assert ask(s, publish("storm", b"x")) == b"OK"
            if number % 7 == 0:  # with a reset instead of an end
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def test_a_storm_of_connections_leaves_nothing_behind() -> None:
    with running() as victim:
        storm(victim, STORM // 5)  # whatever is kept for good is there now
        assert wait_until(lambda: victim.clients() == 0)
        files, rss = victim.open_files, victim.rss
        storm(victim, STORM)
        assert wait_until(lambda: victim.clients() == 0)
        assert wait_until(lambda: victim.open_files <= files)
        # A session costs some 10 kB: were one in ten kept, this would be 5 MB more.
        assert victim.rss - rss < 4_000_000
        victim.check_alive()


@pytest.mark.parametrize("loop", ["", "asyncio"])
def test_more_connections_than_file_handles(loop: str) -> None:
    with running(files=300, loop=loop) as victim, ExitStack() as opened:
        kept = opened.enter_context(victim.connect())
        assert ask(kept, publish("before", b"x")) == b"OK"
        crowd = [opened.enter_context(victim.connect(b"")) for _ in range(400)]
        assert wait_until(lambda: sum(map(_is_closed_by_now, crowd)) > 100)
        assert sum(map(_is_closed_by_now, crowd)) < 400
        # Who is in is served, and files can still be opened: a new topic has some.
        assert ask(kept, publish("meanwhile", b"x")) == b"OK"
        assert wait_until(lambda: _rests(victim)), "it spins"
        log = victim.daemon.log()
        assert log.count("too many open files") == 1
        assert len(log) < 200 * 400, "the log is flooded"
        opened.close()
        assert wait_until(lambda: _serves(victim))
        victim.check_alive()


def _rests(victim: Victim) -> bool:
    """Whether it does little for a second; at first it may have something left to do."""
    before = victim.cpu_s
    time.sleep(1)
    return victim.cpu_s - before < 0.3


def _is_closed_by_now(sock: socket.socket) -> bool:
    sock.settimeout(0.01)
    try:
        return is_closed(sock)
    except TimeoutError:
        return False


def _serves(victim: Victim) -> bool:
    try:
        with victim.connect() as sock:
            return ask(sock, publish("after", b"x")) == b"OK"
    except ConnectionError:
        return False


# --- docs/security.md names every address that a program listens on, and the flag that closes it -


PAGE = Path(__file__).parents[2] / "docs" / "security.md"
ROW = re.compile(r"\| `(\w+)` \| (.*?) \| .* \| (.*?) \|")
PROGRAMS: dict[str, type[Options]] = {
    "nsqd": NsqdOptions, "nsqlookupd": LookupdOptions, "nsqadmin": AdminOptions,
}  # fmt: skip


def told() -> dict[tuple[str, str], str]:
    """The flag that closes each address of a program, according to the page."""
    section = PAGE.read_text().partition("\n## ")[2].partition("\n## ")[0]
    return {
        (program, address): remedy
        for program, addresses, remedy in ROW.findall(section)
        for address in re.findall(r"`([^`]*)`", addresses)
    }


def test_the_page_names_each_default_address_and_its_flag() -> None:
    expected = {}
    for program, options in PROGRAMS.items():
        for each in options.declared.values():
            default = each.initial()
            if isinstance(default, str) and re.fullmatch(r"[\d.]+:\d+", default):
                expected[program, default] = f"--{each.flag}=127.0.0.1:{default.partition(':')[2]}"
    for program, settings, ports in (
        ("mqnamesrv", NamesrvSettings(), [0]),
        ("mqbroker", BrokerSettings(), [0, -2, 1]),  # for clients, for those in a hurry, for slaves
    ):
        for port in ports:
            address = f"{settings.bind_address}:{settings.listen_port + port}"
            expected[program, address] = "bindAddress=127.0.0.1"
    assert told().keys() == expected.keys()
    for key, flag in expected.items():
        assert f"`{flag}`" in told()[key]
