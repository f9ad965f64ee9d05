"""A disk that takes long to sync, and a power cut meanwhile: real processes, real files."""

from __future__ import annotations

import socket
import struct
import sys
import time
from pathlib import Path

import pytest

from penstock.log_api.log_client import LogClient
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.testing.daemons import Daemon, run_nsqd

ROUNDS = 3
SECONDS = 60.0
_SYNCED = 10
_LOST = b"lost in the power cut"


def test_a_power_cut_takes_only_what_nobody_has_seen(tmp_path: Path) -> None:
    gate, data = tmp_path / "gate", tmp_path / "data"
    program = [sys.executable, "-m", "tests.crash.held_nsqd", str(gate)]
    seen: dict[bytes, bytes] = {}
    with run_nsqd("--durability=fsync", data_path=data, program=program) as daemon:
        for number in range(ROUNDS):
            bodies = [b"%d.%d" % (number, message) for message in range(_SYNCED)]
            consume_published(daemon, bodies, seen)
            cut_power(daemon, data, gate, seen)
            daemon.start()
    assert sorted(seen.values()) == sorted(
        b"%d.%d" % (number, message) for number in range(ROUNDS) for message in range(_SYNCED)
    )


def consume_published(daemon: Daemon, bodies: list[bytes], seen: dict[bytes, bytes]) -> None:
    """Publish, consume, and note the message of each id. Those that were finished right before a
    cut come once more.
    """
    stored = len(seen) + len(bodies)
    with Producer(daemon.tcp) as producer, LogClient(daemon.http) as log:
        producer.multi_publish("t", bodies)
        assert log.offsets("t").queues[0].end == stored
    with Consumer("t", "c", nsqd_tcp_addresses=[daemon.tcp], max_in_flight=99) as consumer:
        while len(seen) < stored:
            assert note(consumer, seen), f"{len(seen)} of {stored} messages came"


def note(consumer: Consumer, seen: dict[bytes, bytes], wait_s: float = SECONDS) -> bool:
    """Consume the next message; True if there was one."""
    message = consumer.get(wait_s)
    if message is not None:
        assert seen.setdefault(message.id, message.body) == message.body, "an id was given twice"
        message.finish()
    return message is not None


def cut_power(daemon: Daemon, data: Path, gate: Path, seen: dict[bytes, bytes]) -> None:
    """Publish while the sync is held, check that no consumer sees the message, and cut."""
    (path,) = data.glob("topics/t@*/*.log")
    synced = path.read_bytes()
    gate.touch()
    with socket.create_connection(("127.0.0.1", daemon.tcp_port)) as producer:
        producer.sendall(b"  V2PUB t\n" + struct.pack(">i", len(_LOST)) + _LOST)
        until_written(path)
        with LogClient(daemon.http) as log:
            assert log.offsets("t").queues[0].end == len(seen)
            assert log.fetch("t", len(seen)).data == b""
            assert log.offset_at("t", time.time_ns() - 10**12) == 0
        with Consumer("t", "c", nsqd_tcp_addresses=[daemon.tcp]) as consumer:
            assert not note(consumer, seen, 0.2)
        daemon.kill()
    path.write_bytes(synced)
    gate.unlink()


def until_written(path: Path) -> None:
    for _ in range(int(SECONDS / 0.01)):
        if _LOST in path.read_bytes():
            return
        time.sleep(0.01)
    pytest.fail("the publish was never written")
