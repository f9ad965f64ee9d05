"""Synced messages that are missing after a kill are reported with their number."""

from __future__ import annotations

import json
import struct
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.daemons import Daemon, run_nsqd

COUNT = 200
HEADER_BYTES = 64


def ask(daemon: Daemon, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://{daemon.http}{path}", body, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def topic(daemon: Daemon) -> dict[str, Any]:
    (found,) = json.loads(ask(daemon, "/stats?format=json&topic=t")[1])["topics"]
    return dict(found)


def journal_knows(folder: Path, synced: int) -> bool:
    """True if the newest frame of the journal says that this number of messages is synced."""
    data = (folder / "cursors.journal").read_bytes()
    at = data.rfind(b"PSJ1")
    is_whole = at >= 0 and len(data) >= at + 40  # it may be about to be written
    return is_whole and bool(struct.unpack_from("<Q", data, at + 32)[0] == synced)


def synced(daemon: Daemon) -> Path:
    """Publish single messages, wait until they are synced, kill; returns the segment."""
    for number in range(COUNT):
        assert ask(daemon, "/pub?topic=t", b"%06d" % number) == (200, b"OK")
    assert daemon.data_path is not None
    folder = Path(daemon.data_path) / "topics" / "t@0"
    end = time.monotonic() + 60
    while not journal_knows(folder, COUNT):
        assert time.monotonic() < end, "never synced"
        time.sleep(0.02)
    daemon.kill()
    (segment,) = folder.glob("*.log")
    return segment


def batches(segment: Path) -> list[int]:
    """The positions at which the batches start."""
    data, starts = segment.read_bytes(), []
    position = 0
    while position + HEADER_BYTES <= len(data) and data.startswith(b"PSB1", position):
        starts.append(position)
        position += struct.unpack_from("<I", data, position + 4)[0]
    return starts


@pytest.mark.parametrize("level", ["write", "fsync"])
def test_messages_that_became_zeros_are_counted(level: str) -> None:
    with run_nsqd(f"--durability={level}", "--sync-timeout=50ms") as daemon:
        segment = synced(daemon)
        start = batches(segment)[COUNT - 49]
        with segment.open("r+b") as file:
            file.seek(start)
            file.write(bytes(segment.stat().st_size - start))
        daemon.start()
        assert "49 messages are lost, offsets 151 to 199" in daemon.log()
        assert topic(daemon)["lost_count"] == 49
        assert topic(daemon)["depth"] == COUNT
        assert ask(daemon, "/ping")[0] == 500
        assert ask(daemon, "/pub?topic=t", b"next") == (200, b"OK")
        assert ask(daemon, "/topic/damage/accept?topic=t", b"")[0] == 200
        assert ask(daemon, "/ping") == (200, b"OK")
        daemon.kill()
        daemon.start()
        assert topic(daemon)["lost_count"] == 49
        assert topic(daemon)["depth"] == COUNT + 1, "offsets are not given twice"
        assert ask(daemon, "/ping") == (200, b"OK")


def test_a_flipped_bit_in_the_last_batch_is_no_torn_tail() -> None:
    with run_nsqd("--sync-timeout=50ms") as daemon:
        segment = synced(daemon)
        data = bytearray(segment.read_bytes())
        start = batches(segment)[-1]
        data[start + 70] ^= 1
        segment.write_bytes(data)
        daemon.start()
        assert "1 message is lost, offset 199" in daemon.log()
        (copy,) = (segment.parent / "quarantine").iterdir()
        assert copy.read_bytes() == bytes(data[start:]).rstrip(b"\0")
        assert topic(daemon)["lost_count"] == 1
        assert ask(daemon, "/ping")[0] == 500
