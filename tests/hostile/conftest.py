"""A real nsqd, raw sockets, and what can be seen of the process from outside."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.testing.daemons import Daemon, run_nsqd
from tools.harness.streams import nsq_frame

PATIENCE_S = 60.0
STALL_S = 0.5
LIMITS = ("--max-msg-size=65536", "--max-body-size=262144")
IMPATIENT = "--magic-timeout=12s"
"""A flag for one that soon cuts off who is silent, and not a test that is held up for a while."""
NSQD = (sys.executable, "-m", "penstock.cli.nsqd")
_BUG = re.compile(r"Traceback|Logging error|Exception in|was never|Task exception", re.IGNORECASE)


class Victim:
    """An nsqd that is to survive."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self._checked = 0  # bytes of its log

    def connect(self, hello: bytes = MAGIC_V2) -> socket.socket:
        """A connection to the TCP port; it waits no longer than PATIENCE_S for anything."""
        return self._open(self.daemon.tcp_port, hello)

    def connect_http(self, hello: bytes = b"") -> socket.socket:
        return self._open(self.daemon.http_port, hello)

    def connect_slowly_reading(self, port: int, hello: bytes = b"") -> socket.socket:
        """A connection with a small receive buffer."""
        return self._open(port, hello, receive_bytes=4096)

    def _open(self, port: int, hello: bytes, receive_bytes: int = 0) -> socket.socket:
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.settimeout(PATIENCE_S)
        sock.connect(("127.0.0.1", port))
        sock.sendall(hello)
        return sock

    @property
    def rss(self) -> int:
        """Resident memory in bytes, less what is mapped from files, once the daemon has settled."""
        assert wait_until(self._has_settled)
        text = Path(f"/proc/{self.daemon.pid}/status").read_text()
        return int(text.split("RssAnon:")[1].split()[0]) * 1024

    def _has_settled(self) -> bool:
        """It imports numpy behind its first answers, in one go on its only busy thread: 5 MB come
        after numpy's first library is mapped, so the last one has to be there, and a pause.
        """
        maps = Path(f"/proc/{self.daemon.pid}/maps")
        return "_umath_linalg" in maps.read_text() and self.sleeps

    @property
    def sleeps(self) -> bool:
        """Whether it has nothing to do; one that only waits for a processor has."""
        stat = Path(f"/proc/{self.daemon.pid}/stat")
        return stat.read_text().rpartition(")")[2].split()[0] == "S"

    @property
    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.daemon.pid}/fd"))

    @property
    def cpu_s(self) -> float:
        """Seconds of processor time used so far."""
        fields = Path(f"/proc/{self.daemon.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def get(self, path: str) -> Any:
        """The JSON of one of its pages."""
        with urlopen(f"http://{self.daemon.http}{path}", timeout=PATIENCE_S) as answer:
            return json.loads(answer.read())

    def clients(self) -> int:
        """Connections that have a client's state: consumers and producers."""
        stats = self.get("/stats?format=json&include_mem=false")
        consumers = sum(
            len(channel["clients"]) for topic in stats["topics"] for channel in topic["channels"]
        )
        return consumers + len(stats["producers"] or ())

    def check_alive(self) -> None:
        """It takes a publish and answers HTTP, and its log tells of no bug."""
        with self.connect() as sock:
            assert ask(sock, publish("alive", b"x")) == b"OK"
        with urlopen(f"http://{self.daemon.http}/ping", timeout=PATIENCE_S) as answer:
            assert answer.read() == b"OK"
        self.check_log()

    def check_log(self) -> None:
        log, start = self.daemon.log(), self._checked
        self._checked = len(log)
        found = _BUG.search(log, start)
        assert not found, log[max(0, found.start() - 300) : found.end() + 3000]


def publish(topic: str, body: bytes) -> bytes:
    return f"PUB {topic}\n".encode() + struct.pack(">i", len(body)) + body


def read_frame(sock: socket.socket) -> tuple[int, bytes]:
    """Type and data of the next frame that is no heartbeat."""
    while True:
        kind, data = nsq_frame(sock)
        if data != b"_heartbeat_":
            return kind, data


def ask(sock: socket.socket, command: bytes) -> bytes:
    """The data of the answer, which must be a response."""
    sock.sendall(command)
    kind, data = read_frame(sock)
    assert kind == 0, data
    return data


def read_to_end(sock: socket.socket) -> bytes:
    """All that comes until the other side closes; TimeoutError when it does not."""
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def send_until_blocked(
    victim: Victim, sock: socket.socket, data: bytes, most: int
) -> tuple[int, bool]:
    """Send ``data`` again and again without reading; bytes sent, and whether nsqd stopped taking.

    It has stopped when not one byte can be sent although it has nothing else to do: it sleeps, and
    twice, as it may have made room just before it was looked at.
    """
    sock.settimeout(STALL_S)
    sent = 0
    idle = 0
    view = memoryview(data)
    worked_s = victim.cpu_s
    try:
        while sent < most:
            try:
                sent += sock.send(view[sent % len(data) :])
                idle = 0
            except TimeoutError:
                before, worked_s = worked_s, victim.cpu_s
                is_idle = victim.sleeps and worked_s - before < STALL_S / 10
                idle = idle + 1 if is_idle else 0
                if idle == 2:
                    return sent, True
    except ConnectionError:
        pass
    finally:
        sock.settimeout(PATIENCE_S)
    return sent, False


def wait_until(check: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
    """Whether the check holds within so many seconds."""
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def is_closed(sock: socket.socket) -> bool:
    """Whether the other side ends the connection, answering nothing."""
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


def send_fields(topic: str, **changes: Any) -> dict[str, Any]:
    """The fields of a send over RocketMQ's protocol, for ``RawClient.ask``."""
    return {
        "code": RequestCode.SEND_MESSAGE, "producerGroup": "p", "topic": topic,
        "defaultTopic": "TBW102", "defaultTopicQueueNums": 1, "queueId": 0, "sysFlag": 0,
        "bornTimestamp": 1, "flag": 0, **changes,
    }  # fmt: skip


def pull_fields(topic: str, offset: int, group: str = "g", **changes: Any) -> dict[str, Any]:
    return {
        "code": RequestCode.PULL_MESSAGE, "consumerGroup": group, "topic": topic, "queueId": 0,
        "queueOffset": offset, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0,
        "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, **changes,
    }  # fmt: skip


@contextmanager
def running(*flags: str, files: int = 0, loop: str = "") -> Iterator[Victim]:
    """An nsqd with these flags; ``files`` is its limit on open files, ``loop`` its event loop."""
    program = list(NSQD)
    if files or loop:
        limit = f"ulimit -n {files}; " if files else ""
        words = f'{limit}PENSTOCK_LOOP={loop} exec {shlex.join(NSQD)} "$@"'
        program = ["/bin/sh", "-c", words, "nsqd"]
    with run_nsqd(*flags, program=program) as daemon:
        yield Victim(daemon)


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    """One nsqd for the tests of a module, with limits that are quickly reached."""
    with running(*LIMITS) as made:
        yield made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what is entered into it."""
    with ExitStack() as opened:
        yield opened
