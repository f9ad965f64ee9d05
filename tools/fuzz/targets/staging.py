"""Stage and commit: the bodies of chunks, the files of parts, the notes of commits."""

from __future__ import annotations

import struct

import msgspec

from penstock.broker.publish.commit import unplaced
from penstock.broker.publish.decisions import (
    Decision,
    NodeShare,
    TopicShare,
    decode_decision,
    encode_decision,
)
from penstock.broker.publish.writers import decode_commit, encode_commit
from penstock.core.malformed import MALFORMED
from penstock.core.units import MILLISECOND
from penstock.nsq.nsqd.http.staged_parts import PartHead
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.staged import read_staged
from penstock.storage.files.decision_files import DecisionFiles
from penstock.storage.files.part_files import PartFiles
from penstock.testing.disk import FaultyDisk

from . import Target

SIZE_MAX = 200
DELAY_MS_MAX = 5000
_FOLDER = "/data/staged"
_PART = f"{_FOLDER}/{1:020d}.part"


def chunks(data: bytes) -> None:
    """The messages of a chunk are all of its bytes, or it is refused with one of our codes."""
    try:
        runs = read_staged(data, SIZE_MAX, DELAY_MS_MAX * MILLISECOND)
    except ProtocolError as error:
        assert error.code in ("BAD_BODY", "MSG_EMPTY", "MSG_TOO_BIG", "INVALID_DEFER")
        return
    messages = [
        (body, run.delay_ns // MILLISECOND) for run in runs for body in run.bodies.to_list()
    ]
    again = [struct.pack(">II", len(body), delay) + body for body, delay in messages]
    assert struct.pack(">I", len(messages)) + b"".join(again) == data
    assert all(0 < len(body) <= SIZE_MAX and delay <= DELAY_MS_MAX for body, delay in messages)


def part_files(data: bytes) -> None:
    """A file that is found can be told whose it is; one that is not whole is removed."""
    disk = FaultyDisk("/data", _FOLDER)
    disk.replace_file(_PART, data)
    files = PartFiles(disk, _FOLDER, durably=True)
    for found in files.load():
        assert len(found.head) <= len(data)
        for count in (0, 1):
            batches = files.read(1, count, bytearray())
            assert batches is None or sum(batch.count for batch in batches) == count
        try:
            msgspec.msgpack.decode(found.head, type=PartHead)
        except MALFORMED:
            continue
    assert len(disk.paths(".part")) <= 1


def decisions(data: bytes) -> None:
    """The content of a decision's file, or nothing."""
    found = decode_decision(data)
    if found is not None:
        assert decode_decision(encode_decision(found)) == found


def decision_files(data: bytes) -> None:
    """A file that is whole gives its content; another is left out."""
    disk = FaultyDisk("/data", _FOLDER)
    files = DecisionFiles(disk, _FOLDER, durably=True)
    files.write("w", b"")
    (path,) = disk.paths(".decision")
    disk.replace_file(path, data)
    assert all(data.endswith(content) for content in files.load())


def commit_notes(data: bytes) -> None:
    """The note of a commit, perhaps of dead letters: what it says, or nothing."""
    found = decode_commit(data)
    if found is not None:
        assert decode_commit(encode_commit(found.writer, found.batch)) == found


def _chunk(*messages: tuple[bytes, int]) -> bytes:
    parts = [struct.pack(">II", len(body), delay) + body for body, delay in messages]
    return struct.pack(">I", len(messages)) + b"".join(parts)


def _file(head: bytes, *bodies: bytes) -> bytes:
    disk = FaultyDisk("/data")
    batches = [unplaced(Bodies.single(body), 0) for body in bodies]
    PartFiles(disk, _FOLDER, durably=True).write(1, head, batches)
    return disk.content(_PART)


def _decision_file(content: bytes) -> bytes:
    disk = FaultyDisk("/data", _FOLDER)
    DecisionFiles(disk, _FOLDER, durably=True).write("w", content)
    return disk.content(*disk.paths(".decision"))


_DECISION = Decision(
    "w", 7, (NodeShare("a:1", 2),), ((0, 7), (1, 9)), {"t": TopicShare(1 << 50, 2)}, 1
)
_HEAD = msgspec.msgpack.encode(PartHead("t", 1 << 50, "w", 7, 0, 1, 2, 1_700_000_000 * 10**9, 9, 1))

TARGETS = {
    "staged_chunks": Target(
        chunks,
        [
            _chunk((b"hello", 0), (b"world", 0), (b"again", 5000)),
            _chunk((b"a", 1), (b"bb", 1), (bytes(200), 0)),
        ],
        [b"\0" * 4, b"\0\0\0\1", b"\xff" * 4],
    ),
    "part_files": Target(part_files, [_file(_HEAD, b"a"), _file(b"")], [b"PST1", b"\xff" * 4]),
    "decisions": Target(
        decisions, [encode_decision(_DECISION)], [b"\x87" * 2000, b"\xc0", b"\xcf" + b"\xff" * 8]
    ),
    "decision_files": Target(decision_files, [_decision_file(b"a")], [b"PSD1", b"\xff" * 4]),
    "commit_notes": Target(
        commit_notes,
        [encode_commit("w", 7), encode_commit("w" * 128, (1 << 63) - 1)],
        [b"\x91" * 2000, b"\xa1\xff", b"\xdd\xff\xff\xff\xff", b"\xcf" + b"\xff" * 8, b"\xc0"],
    ),
}
