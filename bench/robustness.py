"""How nsqd bears bad company, in figures: a stalled consumer, idle crowds, silent crowds, a bomb.

    make bench-robustness           all of it, some minutes
    python bench/robustness.py stalled idle --quick

Each figure stands beside its bound; the exit code is 1 when one is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import statistics
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from penstock.nsq.protocol.encode import MAGIC_V2, finish, identify, publish, ready, subscribe
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.testing.daemons import Daemon, run_nsqd

KB, MB = 1024, 1024 * 1024
RATE = 1000
"""Messages a second, each to every healthy consumer's channel."""
FILES_BESIDE = 200
"""Open files of nsqd, or of this program, that are none of the crowd's connections."""


class Check:
    """Figures with their bounds."""

    def __init__(self) -> None:
        self.failed = False

    def report(self, what: str, value: float, bound: float, unit: str) -> None:
        held = value <= bound
        self.failed |= not held
        print(f"{what:58} {value:10.2f} {unit:5} (bound {bound:g})  {'ok' if held else 'MISSED'}")


def rss(daemon: Daemon) -> int:
    text = Path(f"/proc/{daemon.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * KB


def connect(daemon: Daemon, hello: bytes = MAGIC_V2, small: bool = False) -> socket.socket:
    sock = socket.socket()
    if small:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(20)
    sock.connect(("127.0.0.1", daemon.tcp_port))
    sock.sendall(hello)
    return sock


def ask(sock: socket.socket, command: bytes) -> bytes:
    sock.sendall(command)
    reader = FrameReader()
    while True:
        reader.receive_data(sock.recv(65536))
        for frame in reader.events():
            return frame.data  # type: ignore[union-attr]


# --- (a) one stalled consumer beside healthy ones -------------------------------------------------


def latencies(daemon: Daemon, topic: str, healthy: int, seconds: float) -> list[float]:
    """Milliseconds from publish to arrival, of messages that are shared among the consumers."""
    found: list[float] = []
    done = threading.Event()
    with ExitStack() as opened:
        consumers = [opened.enter_context(connect(daemon)) for _ in range(healthy)]
        for sock in consumers:
            ask(sock, identify(b'{"output_buffer_size":-1}'))  # or it is the buffer's time we see
            ask(sock, subscribe(topic, "healthy"))
            sock.sendall(ready(10))
        thread = threading.Thread(target=_receive, args=(consumers, found, done))
        thread.start()
        with connect(daemon) as producer:
            started = time.perf_counter()
            for number in range(int(RATE * seconds)):
                pause = started + number / RATE - time.perf_counter()
                if pause > 0:
                    time.sleep(pause)
                body = struct.pack(">d", time.perf_counter()) + bytes(192)
                ask(producer, publish(topic, body))
        time.sleep(0.3)
        done.set()
        thread.join()
    return found


def _receive(consumers: list[socket.socket], found: list[float], done: threading.Event) -> None:
    import selectors

    selector = selectors.DefaultSelector()
    for sock in consumers:
        selector.register(sock, selectors.EVENT_READ, FrameReader())
    while not done.is_set():
        for key, _ in selector.select(0.1):
            now = time.perf_counter()
            sock = cast(socket.socket, key.fileobj)
            key.data.receive_data(sock.recv(65536))
            for block in key.data.events():
                if isinstance(block, MessageBlock):
                    for message in block:
                        found.append((now - struct.unpack(">d", message.body[:8])[0]) * 1000)
                        sock.sendall(finish(message.id))


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


@contextmanager
def stalled_consumer(daemon: Daemon, topic: str) -> Iterator[None]:
    """It has a channel of its own, asks for all it may, and reads nothing."""
    with connect(daemon, small=True) as sock:
        ask(sock, subscribe(topic, "stalled"))
        sock.sendall(ready(2500))
        yield


def stalled(check: Check, quick: bool) -> None:
    """Rounds with and without, in turns; the median of the rounds' ratios counts."""
    seconds, rounds, healthy = (1.5, 3, 20) if quick else (6.0, 7, 100)
    ratios, without_ms, with_ms = [], [], []
    with run_nsqd("--max-rdy-count=2500") as daemon:
        latencies(daemon, "warm", healthy, 1.0)
        for number in range(rounds):
            without_ms.append(p99(latencies(daemon, f"alone{number}", healthy, seconds)))
            topic = f"beside{number}"
            with stalled_consumer(daemon, topic), connect(daemon) as producer:
                for _ in range(40):  # 40 MB: what it is sent fills its buffers for good
                    ask(producer, publish(topic, bytes(1000 * KB)))
                with_ms.append(p99(latencies(daemon, topic, healthy, seconds)))
            ratios.append(with_ms[-1] / without_ms[-1])
    print(f"p99 without {_shown(without_ms)} ms, with {_shown(with_ms)} ms")
    check.report("healthy p99 with a stalled consumer, ratio", statistics.median(ratios), 1.5, "x")


def _shown(values: list[float]) -> str:
    return "/".join(f"{value:.2f}" for value in values)


# --- (b), (c) crowds ------------------------------------------------------------------------------


def crowd_cost(
    check: Check, what: str, count: int, bound_kb: float, enter: Callable[[Daemon, int], object]
) -> None:
    """Resident memory for each of so many connections, and whether others are served meanwhile."""
    with run_nsqd("--magic-timeout=10m") as daemon, ExitStack() as opened:
        with connect(daemon) as sock:
            ask(sock, publish("t", b"x"))
        before = rss(daemon)
        for number in range(count):
            opened.enter_context(enter(daemon, number))  # type: ignore[arg-type]
        worst = 0.0
        for _ in range(20):
            started = time.perf_counter()
            with connect(daemon) as sock:
                ask(sock, publish("t", b"x"))
            worst = max(worst, time.perf_counter() - started)
        check.report(f"{count} {what}: each", (rss(daemon) - before) / count / KB, bound_kb, "kB")
        check.report(f"{count} {what}: a publish by others, worst of 20", worst * 1000, 250, "ms")


def _plain(daemon: Daemon, number: int) -> socket.socket:
    return connect(daemon)


def _silent(daemon: Daemon, number: int) -> socket.socket:
    return connect(daemon, b"")


def _subscribed(daemon: Daemon, number: int) -> socket.socket:
    sock = connect(daemon)
    about = {"client_id": f"c{number}", "hostname": "h", "feature_negotiation": True}
    ask(sock, identify(json.dumps(about).encode()))
    ask(sock, subscribe("idle", f"c{number % 10}"))
    sock.sendall(ready(10))
    return sock


def _over_tls(certificate: str) -> Callable[[Daemon, int], socket.socket]:
    import ssl

    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False

    def enter(daemon: Daemon, number: int) -> socket.socket:
        sock = connect(daemon)
        ask(sock, identify(b'{"feature_negotiation":true,"tls_v1":true}'))
        wrapped = context.wrap_socket(sock)
        wrapped.recv(100)  # OK
        return wrapped

    return enter


def crowd_max(wanted: int) -> int:
    """So many connections, or what the limit on open files allows each of both sides."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < wanted + FILES_BESIDE:
        print(f"the limit on open files is {most} (ulimit -Hn): {wanted} connections are too many")
    return min(wanted, most - FILES_BESIDE)


def idle(check: Check, quick: bool) -> None:
    count = 500 if quick else 5000
    crowd_cost(check, "idle connections", count, 40, _plain)
    crowd_cost(check, "idle consumers", count, 40, _subscribed)


def silent(check: Check, quick: bool) -> None:
    crowd_cost(check, "silent connections", 1000 if quick else crowd_max(10_000), 40, _silent)


def tls(check: Check, quick: bool) -> None:
    """TLS keeps buffers of its own: OpenSSL takes some tens of kB a connection."""
    import trustme

    count = 200 if quick else 2000
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    with (
        authority.cert_pem.tempfile() as ca,
        issued.private_key_pem.tempfile() as key,
        issued.cert_chain_pems[0].tempfile() as chain,
        run_nsqd(f"--tls-cert={chain}", f"--tls-key={key}") as daemon,
        ExitStack() as opened,
    ):
        enter = _over_tls(ca)
        opened.enter_context(enter(daemon, 0))
        before = rss(daemon)
        for number in range(count):
            opened.enter_context(enter(daemon, number))
        each = (rss(daemon) - before) / count / KB
        check.report(f"{count} idle connections over TLS: each", each, 120, "kB")


# --- (d) a bomb -----------------------------------------------------------------------------------


def bomb(check: Check, quick: bool) -> None:
    """A deflate stream of 1000:1; its message is too big, so nsqd ends the connection."""
    size = 64 * MB if quick else 1024 * MB
    for what, start, filling in (
        ("a message", b"PUB bomb\n" + struct.pack(">i", size), bytes(MB)),
        ("a line", b"PUB ", b"t" * MB),
        ("empty lines", b"", b"\n" * MB),
    ):
        with run_nsqd() as daemon, connect(daemon) as sock:
            ask(sock, identify(b'{"feature_negotiation":true,"deflate":true}'))
            before, peak = rss(daemon), 0
            coder = zlib.compressobj(9, zlib.DEFLATED, -15)
            try:
                sock.sendall(coder.compress(start))
                for _ in range(size // MB):
                    sock.sendall(coder.compress(filling) + coder.flush(zlib.Z_SYNC_FLUSH))
                    peak = max(peak, rss(daemon))
            except OSError:
                pass
            peak = max(peak, rss(daemon))
            check.report(f"bomb of {size // MB} MB, {what}: growth", (peak - before) / MB, 32, "MB")


PARTS = {"stalled": stalled, "idle": idle, "silent": silent, "tls": tls, "bomb": bomb}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("parts", nargs="*", default=[*PARTS], help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    check = Check()
    for part in given.parts:
        if part not in PARTS:
            parser.error(f"there is no part {part!r}: {', '.join(PARTS)}")
        PARTS[part](check, given.quick)
    sys.exit(check.failed)


if __name__ == "__main__":
    main()
