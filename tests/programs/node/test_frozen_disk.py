"""A node on a file system that is frozen, as snapshots of a disk do it for seconds."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.storage.files.patient_disk import SMALL_BYTES
from penstock.testing.daemons import Daemon, run_nsqd
from tests import frozen_disk
from tests.copies import publish
from tests.frozen_disk import ANSWER_S, FROZEN_S, frozen, until_healthy

pytestmark = frozen_disk.MARKS


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    with frozen_disk.mounted(tmp_path) as folder:
        yield folder


def asked(node: Daemon, method: str, path: str, body: bytes = b"") -> tuple[int, bytes, float]:
    """Status, body and seconds of an answer."""
    return frozen_disk.asked(node.http_port, method, path, body)


class Publisher:
    """One that publishes on and on, with a pause between."""

    def __init__(self, node: Daemon, pause_s: float) -> None:
        self.node, self.pause_s = node, pause_s
        self.answers: list[tuple[int, bytes, float]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopped.wait(self.pause_s):
            body = b"%d" % len(self.answers)
            self.answers.append(asked(self.node, "POST", "/pub?topic=t", body))

    def __enter__(self) -> Publisher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(60)


@pytest.mark.parametrize("pause_s", [0.0, 0.02], ids=["one after the other", "now and then"])
def test_health_is_told_publishes_wait_and_none_is_lost(mounted: Path, pause_s: float) -> None:
    with run_nsqd("--metrics", data_path=mounted / "data") as node:
        publish(node, "t", "first")
        faults: list[float] = []
        with Publisher(node, pause_s) as publisher:
            time.sleep(0.5)
            with frozen(mounted) as began:
                while time.monotonic() - began < FROZEN_S - 0.5:
                    assert asked(node, "GET", "/live")[:2] == (200, b"OK")
                    status, text, took_s = asked(node, "GET", "/ping")
                    assert took_s < ANSWER_S
                    if status != 200:
                        assert b"the disk has not answered for" in text
                        faults.append(time.monotonic() - began)
                    assert b"nsqd_" in asked(node, "GET", "/metrics")[1]
                    time.sleep(0.05)
            until_healthy(node.http_port)
        assert 1 < faults[0] < 3.5
        assert {each[:2] for each in publisher.answers} == {(200, b"OK")}
        assert max(each[2] for each in publisher.answers) > FROZEN_S / 2, "it has waited"
        node.kill()
        node.start()
        stored = asked(node, "GET", "/log/offsets?topic=t")[1]
        assert f'"end":{len(publisher.answers) + 1}'.encode() in stored.replace(b" ", b"")


def test_consumers_of_what_is_in_memory_go_on(mounted: Path) -> None:
    count = 50
    with run_nsqd(data_path=mounted / "data") as node:
        assert asked(node, "POST", "/topic/create?topic=t")[0] == 200
        assert asked(node, "POST", "/channel/create?topic=t&channel=c")[0] == 200
        publish(node, "t", *map(str, range(count)))
        time.sleep(1)
        with (
            frozen(mounted) as began,
            socket.create_connection(("127.0.0.1", node.tcp_port), ANSWER_S) as client,
        ):
            client.sendall(b"  V2SUB t c\nRDY 1\n")
            stream, bodies = client.makefile("rb"), list[bytes]()
            while len(bodies) < count:
                size, kind = struct.unpack(">ii", stream.read(8))
                data = stream.read(size - 4)
                if kind == 2:
                    bodies.append(data[26:])
                    client.sendall(b"FIN %b\n" % data[10:26])
            assert time.monotonic() - began < FROZEN_S
            assert bodies == [b"%d" % number for number in range(count)]
        time.sleep(1)
        [topic] = json.loads(asked(node, "GET", "/stats?format=json&topic=t")[1])["topics"]
        assert topic["channels"][0]["depth"] == 0
        node.kill()
        node.start()
        [topic] = json.loads(asked(node, "GET", "/stats?format=json&topic=t")[1])["topics"]
        assert topic["channels"][0]["depth"] == 0, "progress is written once the disk answers"


def frames(client: socket.socket) -> Iterator[tuple[int, bytes]]:
    """The frames that a node sends, by their kind, until it closes the connection."""
    stream = client.makefile("rb")
    while head := stream.read(8):
        size, kind = struct.unpack(">ii", head)
        yield kind, stream.read(size - 4)


class Stream:
    """One that publishes many messages at once, on and on."""

    BODIES = 64
    PAUSE_S = 0.004

    def __init__(self, node: Daemon) -> None:
        # More than the loop writes by itself.
        size = 2 * SMALL_BYTES // self.BODIES
        bodies = (struct.pack(">i", size) + bytes(size)) * self.BODIES
        mpub = struct.pack(">i", self.BODIES) + bodies
        self.command = b"MPUB busy\n" + struct.pack(">i", len(mpub)) + mpub
        self.answers: list[bytes] = []
        self.waited_s = 0.0
        self._client = socket.create_connection(("127.0.0.1", node.tcp_port), 60)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        answers = frames(self._client)
        self._client.sendall(b"  V2")
        while not self._stopped.wait(self.PAUSE_S):  # or it would fill the disk
            began = time.monotonic()
            self._client.sendall(self.command)
            self.answers.append(next(data for _, data in answers if data != b"_heartbeat_"))
            self.waited_s = max(self.waited_s, time.monotonic() - began)

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(60)
        self._client.close()


def test_a_freeze_that_meets_a_busy_stream_holds_up_publishes_alone(mounted: Path) -> None:
    count = 50
    with run_nsqd(data_path=mounted / "data") as node:
        assert asked(node, "POST", "/topic/create?topic=t")[0] == 200
        assert asked(node, "POST", "/channel/create?topic=t&channel=c")[0] == 200
        publish(node, "t", *map(str, range(count)))
        consumer = socket.create_connection(("127.0.0.1", node.tcp_port), ANSWER_S)
        idle = socket.create_connection(("127.0.0.1", node.tcp_port), ANSWER_S)
        streams = [Stream(node) for _ in range(8)]
        with consumer, idle, ExitStack() as running:
            for each in streams:
                running.enter_context(each)
            consumer.sendall(b"  V2SUB t c\nRDY 1\n")
            told = b'{"heartbeat_interval": 1000}'
            idle.sendall(b"  V2IDENTIFY\n" + struct.pack(">i", len(told)) + told)
            heard, taken = frames(idle), frames(consumer)
            assert next(heard) == (0, b"OK")
            time.sleep(0.5)
            with frozen(mounted) as began:
                time.sleep(0.5)
                for _ in range(3):  # each within the time-out of the socket
                    assert next(heard) == (0, b"_heartbeat_")
                    idle.sendall(b"NOP\n")
                for number in range(count):
                    data = next(data for kind, data in taken if kind == 2)
                    assert data[26:] == b"%d" % number
                    consumer.sendall(b"FIN %b\n" % data[10:26])
                assert asked(node, "GET", "/stats?format=json")[2] < ANSWER_S
                assert time.monotonic() - began < FROZEN_S, "while it is frozen"
        for each in streams:
            assert set(each.answers) == {b"OK"}
            assert each.waited_s > FROZEN_S / 2, "it has waited"
        end = Stream.BODIES * sum(len(each.answers) for each in streams)
        node.kill()
        node.start()
        stored = asked(node, "GET", "/log/offsets?topic=busy")[1].replace(b" ", b"")
        assert b'"end":%d' % end in stored


def test_a_node_that_nobody_publishes_to_tells_it_too(mounted: Path) -> None:
    with run_nsqd(data_path=mounted / "data") as node:
        publish(node, "t", "first")
        time.sleep(1.5)
        with frozen(mounted) as began:
            while asked(node, "GET", "/ping")[0] == 200:
                assert time.monotonic() - began < FROZEN_S - 0.5
                time.sleep(0.05)
            assert b"the disk has not answered for" in asked(node, "GET", "/ping")[1]
            assert asked(node, "GET", "/ready")[0] == 503
            assert asked(node, "GET", "/stats")[2] < ANSWER_S
        until_healthy(node.http_port)
