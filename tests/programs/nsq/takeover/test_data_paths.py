"""nsqd on data paths that a real Go nsqd has left, and killed while it imports."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import PenstockError
from penstock.nsq.takeover.importer import IMPORTED
from penstock.nsq.takeover.moves import STAGING
from penstock.storage.files.disk import OsDisk
from penstock.testing.daemons import run_nsqd
from tests import nsqds
from tests.programs.nsq.nsqd.conftest import Running, Start, options
from tools.harness.go_files import delivered, expected, messages, nsqd_dat, queue

FIXTURES = Path(__file__).parents[3] / "fixtures" / "go-nsqd"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))

Listed = list[list[Any]]


async def consume(nsqd: Running, topic: str, channel: str, count: int) -> Listed:
    """Time stamp, attempts and body of so many messages, in order; all are finished."""
    client = await nsqd.consumer(topic, channel, 2500)
    got = await client.messages(count)
    client.send(b"".join([b"FIN %b\n" % message.id for message in got]))
    await nsqd.until(
        lambda: nsqd.nsqd.node.broker.topics[topic].channels[channel].state.in_flight_count == 0
    )
    client.writer.close()
    return sorted([m.timestamp, m.attempts, m.body.decode("latin-1")] for m in got)


async def check_states(nsqd: Running, topics: dict[str, Any]) -> None:
    """Depths and pauses, in the words of /stats, are those of Go."""
    found = {
        topic["topic_name"]: topic for topic in (await nsqd.json("/stats?format=json"))["topics"]
    }
    assert found.keys() == topics.keys()
    for name, wanted in topics.items():
        depth = len(wanted["first"]) if "first" in wanted else wanted["depth"]
        assert (found[name]["depth"], found[name]["paused"]) == (depth, wanted["paused"])
        channels = {c["channel_name"]: (c["depth"], c["paused"]) for c in found[name]["channels"]}
        assert channels == {
            channel: (c["depth"], c["paused"]) for channel, c in wanted["channels"].items()
        }


@pytest.mark.parametrize("name", NAMES)
async def test_what_go_would_deliver_is_delivered(
    name: str, start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock.nsqd")
    path = tmp_path / "data"
    shutil.copytree(FIXTURES / name, path)
    topics = json.loads((FIXTURES / f"{name}.json").read_text())
    nsqd = await start(data_path=path)
    assert "IMPORT: found the queues of a Go nsqd" in caplog.text
    await check_states(nsqd, topics)
    for topic, wanted in topics.items():
        await nsqd.post(f"/topic/unpause?topic={topic}")
        if "first" in wanted:
            got = await consume(nsqd, topic, "first", len(wanted["first"]))
            assert got == wanted["first"]
        for channel, held in wanted["channels"].items():
            await nsqd.post(f"/channel/unpause?topic={topic}&channel={channel}")
            got = await consume(nsqd, topic, channel, len(held["messages"]))
            assert got == held["messages"]
    await nsqd.stop()
    caplog.clear()
    again = await start(data_path=path)
    for topic in (await again.json("/stats?format=json"))["topics"]:
        assert [topic["depth"], *(c["depth"] for c in topic["channels"])] == [0] * (
            1 + len(topic["channels"])
        )
    assert "IMPORT" not in caplog.text


async def test_go_files_stay_as_they_were(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "data"
    shutil.copytree(FIXTURES / "clean-stop", path)
    await start(data_path=path)
    for file in (FIXTURES / "clean-stop").glob("*.diskqueue.*"):
        kept = path if "#ephemeral" in file.name else path / IMPORTED
        assert (kept / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            nsqd_dat({"t": []}) | queue("t", messages([1], size=2_000_000)),
            "failed to instantiate nsqd - {}/t.diskqueue.000000.dat holds a message of 2000000 "
            "bytes, more than --max-msg-size 1048576: start with --max-msg-size=2000000 or more",
        ),
        (
            queue("t", messages([1])) | {"nsqd.dat": b""},
            "failed to load metadata - failed to parse metadata in {}/nsqd.dat - "
            "Expecting value: line 1 column 1 (char 0)",
        ),
        (
            queue("t", messages([1])) | {STAGING: b"a file"},
            "failed to instantiate nsqd - failed to import the queues of Go's nsqd - {}/" + STAGING,
        ),
    ],
)
async def test_a_refusal_is_one_line_and_changes_nothing(
    content: dict[str, bytes], text: str, tmp_path: Path
) -> None:
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    for _ in range(2):  # the lock is let go
        with pytest.raises(PenstockError) as refused:
            await nsqds.start(options(tmp_path))
        assert str(refused.value).startswith(text.format(tmp_path))
    found = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    assert found == content


STOPS_ITSELF = """
import os, signal, sys
from penstock.cli import nsqd
from penstock.nsq.takeover.moves import STAGING
from penstock.storage.files.disk import OsLogFile

left = int(sys.argv.pop(1))
append = OsLogFile.append

def counted(file, data):
    global left
    left -= STAGING in file.path
    if left == 0:
        left = -1
        os.kill(os.getpid(), signal.SIGSTOP)
    append(file, data)

OsLogFile.append = counted
nsqd.main()
"""
"""An nsqd that stops itself (SIGSTOP) before a write of its import, the first, the second, ..."""


def import_stopped(path: Path, at_write: int) -> subprocess.Popen[bytes]:
    """An nsqd in the middle of its import; the caller ends it."""
    command = [sys.executable, "-c", STOPS_ITSELF, str(at_write), f"--data-path={path}",
               "--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    state = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert state is not None
    assert state.si_code == os.CLD_STOPPED, process.wait()
    assert (path / STAGING).exists()
    return process


def test_a_stop_during_the_import_is_heard_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir()
    queued = messages(range(30_000), size=100)
    content = {**nsqd_dat({"t": ["a"]}), **queue("t:a", queued)}
    for name, data in content.items():
        (path / name).write_bytes(data)
    process = import_stopped(path, 1)
    process.terminate()
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0
    assert {name: (path / name).read_bytes() for name in os.listdir(path)} == content
    with run_nsqd(data_path=path):
        assert (path / IMPORTED).exists()
    assert delivered(OsDisk(), str(path)) == {"t": {"a": expected(queued)}}


def test_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir()
    both, late = messages(range(60_000), size=100), messages(range(60_000, 70_000), 2, size=50)
    content = {
        **nsqd_dat({"t": ["a", "b"], "u": []}),
        **queue("t:a", both[:30_000], both[30_000:], late),
        **queue("t:b", both[10_000:]),
        **queue("u", both),
    }
    for name, data in content.items():
        (path / name).write_bytes(data)
    for at_write in (1, 2, 5, 9):
        process = import_stopped(path, at_write)
        process.kill()
        process.wait()
    with run_nsqd(data_path=path):
        assert STAGING not in os.listdir(path)
    assert delivered(OsDisk(), str(path)) == {
        "t": {"a": expected(both + late), "b": expected(both[10_000:])},
        "u": {"": expected(both)},
    }
