"""What of storage needs another process: locks, and readers without compiled packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.errors import LockedError
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import Command
from penstock.storage.batch import Batch
from penstock.storage.files.disk import OsDisk
from tools.harness.fake_log_server import nsq_batch

_HOLDER = """
import sys
from penstock.storage.files.disk import OsDisk
lock = OsDisk().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time_holds_a_directory(tmp_path: Path) -> None:
    disk = OsDisk()
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match="possibly in use by another instance"):
            disk.lock(str(tmp_path))
        holder.kill()  # the lock goes with the process, however it ends
    disk.lock(str(tmp_path)).release()


# --- The cases of `storage/test_compiled.py` that need a port or a process -----------------------


BARE = """
import sys
sys.modules["msgspec"] = sys.modules["xxhash"] = None  # as if not installed
from penstock.storage.batch import Batch, iter_batches
data = bytes.fromhex(sys.argv[1])
(batch,) = iter_batches(data, verify=False)
print(batch.first_offset, batch.count, bytes(batch.slice(8, 9))[-5:], batch.note)
print(batch == Batch.parse(data, verify=False), batch.positions().tolist())
Batch.parse(data)
"""
COMMANDS = """
import sys
sys.modules["msgspec"] = sys.modules["xxhash"] = None  # as if not installed
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import Command
reader = frames.FrameReader()
reader.feed(bytes.fromhex(sys.argv[1]))
read = reader.next_command()
print(read.code, read.opaque, read.flag, read.remark, read.language.name, read.ext, read.body)
print(frames.encode(Command(11, 7, {"topic": "\\u00fc\\n"}, b"body")).hex())
"""


@pytest.mark.parametrize("bodies", [[b"first", b"other"], [b"1", b"other"]], ids=["even", "mixed"])
def test_a_reader_without_them_parses_batches_and_verifies_none(bodies: list[bytes]) -> None:
    data = nsq_batch(7, bodies)
    ended = subprocess.run(
        [sys.executable, "-c", BARE, data.hex()], capture_output=True, text=True, timeout=60
    )
    positions = Batch.parse(data).positions().tolist()
    assert ended.stdout == f"7 2 b'other' b''\nFalse {positions}\n"
    # Asked to verify it refuses: nothing passes for verified that is not.
    assert ended.stderr.endswith("the checksum of a batch needs the package xxhash\n")


def test_a_reader_without_them_reads_and_writes_the_same_commands() -> None:
    answer = Command(11, 7, {"n": "1", "u": "\u00fc"}, b"body", 1, "said")
    ended = subprocess.run(
        [sys.executable, "-c", COMMANDS, frames.encode(answer).hex()],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    request = frames.encode(Command(11, 7, {"topic": "\u00fc\n"}, b"body"))
    assert ended.stdout == (
        f"11 7 1 said PYTHON {{'n': '1', 'u': '\u00fc'}} b'body'\n{request.hex()}\n"
    ), ended.stderr
