"""nsq_to_file is killed under load, again and again: every message is in its files, and every file
can be read.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import struct
import urllib.request
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.testing.daemons import Daemon, run_nsqd
from penstock.testing.ledger import NUMBER_BYTES, Ledger, make_body, read_body
from tests.nsq_to_file import ToFile
from tools.loads.load import BATCH, Connection, Load

ROUNDS = max(2, int(os.environ.get("PENSTOCK_KILL_ROUNDS", "2")) // 5)
SEED = int(os.environ.get("PENSTOCK_KILL_SEED", "0")) or random.SystemRandom().getrandbits(32)
TOPIC = "archive"
WARM_SYNCS = 5
LIFE_S_MAX = 0.2
REST_S_MAX = 0.03
DRAIN_S_MAX = 60.0

PLAIN = ["--filename-format=<TOPIC>.log"]
ROTATED = ["--rotate-size=20000", "--rotate-interval=150ms"]
COMPRESSED = ["--gzip", "--rotate-size=30000", "--max-in-flight=50"]


def size_of(number: int) -> int:
    """The length of this number's body, so that a torn line is not taken for a short one; without a
    filler where that would hold a line's end.
    """
    return NUMBER_BYTES if b"\n" in make_body(number, NUMBER_BYTES + 8) else 20 + number % 300


class SizedLoad(Load):
    """Bodies whose lengths follow from their numbers, at a pace that leaves little to drain."""

    async def multi_publish(self, daemon: Daemon) -> None:
        connection = await Connection.open(daemon)
        try:
            while True:
                numbers = self.ledger.attempt(BATCH)
                await connection.ask(b"MPUB %s\n" % self.topic, self._multi_body(numbers))
                self.ledger.acknowledge(numbers)
                await asyncio.sleep(self.rng.uniform(0, REST_S_MAX))
        finally:
            connection.writer.close()

    def _multi_body(self, numbers: Iterable[int]) -> bytes:
        bodies = [make_body(number, size_of(number)) for number in numbers]
        parts = [struct.pack(">i", len(body)) + body for body in bodies]
        return struct.pack(">i", len(bodies)) + b"".join(parts)


@pytest.mark.parametrize(
    ("flags", "moves"),
    [(PLAIN, False), (ROTATED, False), (COMPRESSED, True)],
    ids=["plain", "rotated", "compressed"],
)
async def test_every_message_is_in_the_files(
    tmp_path: Path, flags: list[str], moves: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    ledger = Ledger()
    flags = [*flags, f"--topic={TOPIC}", f"--output-dir={tmp_path}/out", "--sync-interval=40ms"]
    if moves:
        flags.append(f"--work-dir={tmp_path}/wip")
    with run_nsqd("--msg-timeout=1s") as daemon:
        flags.append(f"--nsqd-tcp-address={daemon.tcp}")
        load = SizedLoad(ledger, rng, TOPIC)
        publishing = asyncio.ensure_future(load.multi_publish(daemon))
        for number in range(ROUNDS):
            await live_and_die(ToFile(tmp_path / f"log{number}", *flags), rng)
        publishing.cancel()
        await asyncio.wait([publishing])
        assert publishing.cancelled(), "nothing went wrong with it"
        await drain(daemon, ToFile(tmp_path / "log", *flags))
    torn = sum(read(path, ledger) for path in files(tmp_path))
    report = ledger.report()
    with capsys.disabled():
        print(f"\nnsq_to_file, {ROUNDS} kills, seed {SEED}, {torn} torn lines: {report}")
    assert report.lost == 0, ledger.lost()
    assert report.invented == 0
    assert report.acknowledged > ROUNDS
    assert torn <= ROUNDS


async def live_and_die(tool: ToFile, rng: random.Random) -> None:
    """Let it work for a moment, once it is at full speed, and kill it."""
    await asyncio.to_thread(tool.wait_until_said, " records to disk", times=WARM_SYNCS)
    await asyncio.sleep(rng.uniform(0, LIFE_S_MAX))
    tool.kill()


async def drain(daemon: Daemon, tool: ToFile) -> None:
    """Let it write all there is, and end it as a user does, once it can hear that."""
    await asyncio.to_thread(tool.wait_until_said, "connecting to nsqd")
    for _ in range(int(DRAIN_S_MAX / 0.05)):
        if not await asyncio.to_thread(unfinished, daemon):
            break
        await asyncio.sleep(0.05)
    assert await asyncio.to_thread(tool.stop) == 0
    assert "FATAL" not in tool.said()


def unfinished(daemon: Daemon) -> int:
    """Messages that are not finished yet."""
    url = f"http://{daemon.http}/stats?format=json&topic={TOPIC}"
    with urllib.request.urlopen(url) as answer:
        (topic,) = json.load(answer)["topics"]
    (channel,) = topic["channels"]
    counts = ("depth", "in_flight_count", "deferred_count")
    return int(topic["depth"] + sum(channel[count] for count in counts))


def files(home: Path) -> list[Path]:
    """All files that it left."""
    return [path for name in ("out", "wip") for path in sorted((home / name).rglob("*.log*"))]


def read(path: Path, ledger: Ledger) -> int:
    """Show the ledger the lines of a file; how many lines are torn.

    Compressed, only a file that is still being worked on may have a torn end, and only there.
    """
    data = path.read_bytes()
    if path.suffix == ".gz":
        data, torn = unpacked(data)
        assert not torn or path.parent.name == "wip", path
    *lines, rest = data.split(b"\n")
    damaged = 1 if rest else 0
    for line in lines:
        number = read_body(line)
        if number is not None and len(line) == size_of(number):
            ledger.see(line)
        else:
            damaged += 1
    return damaged


def unpacked(data: bytes) -> tuple[bytes, bool]:
    """What `zcat` gets out of a file, and whether it complains about the end."""
    text = b""
    while data:
        reader = zlib.decompressobj(31)
        with suppress(zlib.error):  # half a head
            text += reader.decompress(data)
        if not reader.eof:
            return text, True
        data = reader.unused_data
    return text, False
