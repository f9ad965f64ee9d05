"""What nsqd finds on its disk when it starts: segments, indexes, journals, progress."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from penstock.broker.progress import ChannelRecord, GoneRecord, GroupRecord, Progress, TopicRecord
from penstock.broker.progress import encode_record as encoded
from penstock.core.errors import LaterFormatError, StorageError
from penstock.core.ids import epochs_of, fork, format_log_id, log_of
from penstock.storage.batch import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    MAGIC,
    Batch,
    CorruptBatchError,
    iter_batches,
)
from penstock.storage.epochs import LogEpochs
from penstock.storage.extent import NOTHING, Extent
from penstock.storage.index import BlockIndex
from penstock.storage.journal import Journal
from penstock.storage.journal_frames import encode_frames
from penstock.storage.queues.hash_index import HashIndex
from penstock.storage.recovery.scan import scan
from penstock.testing.disk import FaultyDisk
from tools.harness import small_logs as samples

from . import Target

JOURNAL = "/data/journal"
_SEALED = b"S"
"""A first byte that asks for right checksums: behind them lies most of what can go wrong."""


def batches(data: bytes) -> None:
    """Batches back to back, and the scan over damaged ones: all bytes are accounted for."""
    data = _sealed(data)
    try:
        read = list(iter_batches(data))
    except CorruptBatchError:
        read = []
    found = scan(data)
    assert [bytes(batch.raw) for batch in read] == [
        bytes(batch.raw) for batch in found.batches[: len(read)]
    ] or not _ascending(read)
    spans = [
        (start, start + len(batch.raw))
        for start, batch in zip(found.positions, found.batches, strict=True)
    ]
    spans += [(damage.start, damage.end) for damage in found.damage]
    at = 0
    for start, end in sorted(spans):
        assert start == at
        assert end > start
        at = end
    assert at == len(data)
    assert _ascending(found.batches)


def _ascending(found: list[Batch]) -> bool:
    ends = [0, *(batch.next_offset for batch in found)]
    return all(batch.first_offset >= end for batch, end in zip(found, ends, strict=False))


def recovery(data: bytes) -> None:
    """A segment of these bytes: the log opens, takes publishes, and holds all after a restart."""
    disk = samples.new_disk()
    disk.make_directory(samples.DIRECTORY)
    disk.open(samples.SEGMENT).append(_sealed(data))
    log, _ = samples.open_at(disk)
    start = log.next_offset
    held = samples.read_from(log, log.start_offset)
    samples.publish(log, b"new")
    log.close()
    log, _ = samples.open_at(disk)
    assert samples.read_from(log, log.start_offset) == {**held, start: b"new"}
    log.close()


def identity(data: bytes) -> None:
    """A queue's identity file: believed, or replaced when it makes no sense."""
    disk = samples.new_disk()
    log, _ = samples.open_at(disk)
    samples.publish(log, b"kept")
    log.close()
    disk.replace_file(f"{samples.DIRECTORY}/queue.json", data)
    log, _ = samples.open_at(disk)
    samples.publish(log, b"new")
    log.close()
    log, _ = samples.open_at(disk)
    assert list(samples.read_from(log, log.start_offset).values()) == [b"kept", b"new"]
    log.close()


def epochs(data: bytes) -> None:
    """The file of epochs: refused, taken for missing, or told by the id of a log and read there."""
    disk = FaultyDisk("/data")
    disk.replace_file("/data/epochs.json", data)
    try:
        found = LogEpochs(disk, "/data")
    except LaterFormatError:
        return
    told = found.log_id("t", 7)
    assert log_of(told) == f"{7:016x}"
    assert told == format_log_id(7, epochs_of(told))
    assert fork(told, told) is None


def index(data: bytes) -> None:
    """The index file of a segment."""
    if data[:1] == _SEALED:
        data = data[1:5] + struct.pack("<Q", xxh3_64_intdigest(data[13:])) + data[13:]
    try:
        found, size, next_offset, timestamp_ns = BlockIndex.decode(data)
    except CorruptBatchError:
        return
    assert len(found.offsets) == len(found.positions) == len(found.timestamps)
    assert found.encode(size, next_offset, timestamp_ns) == data


def journal(data: bytes) -> None:
    """A cursor journal: whole records are kept wherever they are, new ones are added."""
    disk = FaultyDisk("/data")
    disk.open(JOURNAL).append(data)
    opened = Journal(disk, JOURNAL, 7)
    opened.replace(opened.records)
    opened.append([b"new"])
    opened.close()
    again = Journal(disk, JOURNAL, 7)
    assert again.records == [*opened.records, b"new"]
    assert again.torn_bytes == 0
    again.close()


def hashes(data: bytes) -> None:
    """A file of the index of hashes: what is whole and belongs to the log counts, the rest is made
    again.
    """
    disk = samples.new_disk()
    log, _ = samples.open_at(disk)
    for body in (b"one", b"two", b"three"):
        samples.publish(log, body)
    disk.open(f"{samples.DIRECTORY}/{0:020d}.keys").append(_sealed_rows(data))
    found = HashIndex.open(disk, samples.DIRECTORY, log)
    for chunk in found.candidates(7, 0, 1 << 40):
        assert all(0 <= offset < 1 << 40 for offset in chunk)
    while found.covered < log.next_offset:
        batches, place = log.batches_at(found.covered)
        first, batch = found.covered, batches[place]
        found.add([8], [0], first, batch.next_offset, batch.timestamp_ns)
    found.flush()
    assert HashIndex.open(disk, samples.DIRECTORY, log).covered == log.next_offset


def _sealed_rows(data: bytes) -> bytes:
    """A first chunk without its first byte; when that asks for it, with a right checksum."""
    if data[:1] != _SEALED or len(data) < 41:
        return data[1:]
    (rows,) = struct.unpack_from("<I", data, 5)
    checksum = xxh3_64_intdigest(data[17 : 41 + 8 * min(rows, len(data))])
    return data[1:9] + struct.pack("<Q", checksum) + data[17:]


def progress(data: bytes) -> None:
    """Records of channels and groups, whole by their checksums but perhaps of another version."""
    records = data.split(b"\n\n")
    try:
        found = Progress.replay(records)
    except StorageError:
        return
    assert found.end() >= 0
    for name, record in found.channels.items():
        again = Progress.replay([encoded(record)])
        assert again.channels == {name: record}


def _sealed(data: bytes) -> bytes:
    """The data without its first byte; when that asks for it, with right checksums."""
    if data[:1] != _SEALED:
        return data[1:]
    sealed = bytearray(data[1:])
    at = sealed.find(MAGIC)
    while at >= 0 and at + HEADER_BYTES <= len(sealed):
        (length,) = struct.unpack_from("<I", sealed, at + 4)
        if HEADER_BYTES <= length <= min(BATCH_BYTES_MAX, len(sealed) - at):
            struct.pack_into("<Q", sealed, at + 8, xxh3_64_intdigest(sealed[at + 16 : at + length]))
        at = sealed.find(MAGIC, at + max(length, 1))
    return bytes(sealed)


def _segment(*groups: list[bytes]) -> bytes:
    return b"".join(bytes(batch.raw) for batch in samples.make_all(groups))


def _index() -> bytes:
    sparse = BlockIndex()
    sparse.note(0, 0, 5)
    sparse.note(9, 300_000, 6)
    return sparse.encode(400_000, 12, 7)


def _framed(*records: bytes) -> bytes:
    return b"".join(
        struct.pack("<IQ", len(record), xxh3_64_intdigest(record)) + record for record in records
    )


def _rows(*chunks: tuple[int, int, list[int]]) -> bytes:
    """Chunks of a log of single messages, the n-th stored at n."""
    found = b""
    for first, end, offsets in chunks:
        rows = struct.pack(f"<{2 * len(offsets)}I", *[7] * len(offsets), *offsets)
        checked = struct.pack("<QQq", first, end, end - 1) + rows
        found += struct.pack("<4sIQ", b"PSK1", len(offsets), xxh3_64_intdigest(checked)) + checked
    return found


_SEGMENTS = [
    _segment([b"a"], [b"bb", b"bb"], [b"c", b"dd", b"eee"]),
    _segment([b"x" * 20] * 4, [_segment([b"inner"])], [b"y"]),
    _segment([b"long" * 40, b"s"]),
]
_RECORDS: list[Any] = [
    ChannelRecord("c", 5, 9, [(1, 2, 3)], [(6, 7)], False, [(99, 7, 8, 1)], [3]),
    GroupRecord("g", 4),
    TopicRecord(9, True),
    GoneRecord("c", None),
    GoneRecord(None, "g"),
]
_NO_RECORDS: list[Any] = [-1, 1 << 63, None, "c", [], 1.5, b"c"]
_WORDS = [MAGIC, b"\0" * 8, b"\xff" * 8, b"\xff" * 4, b"\0\0\0\x80", b"\x01\0\0\0"]

TARGETS = {
    "batches": Target(batches, [lead + s for s in _SEGMENTS for lead in (b"S", b"-")], _WORDS),
    "recovery": Target(recovery, [lead + s for s in _SEGMENTS for lead in (b"S", b"-")], _WORDS),
    "queue_identity": Target(
        identity,
        [b'{"id_base":80016489676800,"version":1}', b"{}", b"null"],
        [b"-1", b"9" * 20, b"\xff", b'"', b"1.0", b"null", b"18446744073709551615"],
    ),
    "epochs": Target(
        epochs,
        [
            b'{"epochs":[{"mark":"9f3a77c1","restored":true,"ends":{"t":[7,1500]}}],"version":1}',
            b'{"epochs":[{"mark":"a","restored":false,"ends":null}]}',
        ],
        [b"-1", b"9" * 20, b"null", b'"', b"~", b"$"],
    ),
    "index": Target(index, [_index(), _SEALED + _index()], _WORDS),
    "journal": Target(
        journal,
        [
            encode_frames([b"one", b"", b"three" * 20], 7, Extent(1, 2, 3)),
            encode_frames([b"x"], 7, NOTHING) + b"torn" + encode_frames([b"y"], 8, NOTHING),
            _framed(b"one", b"three" * 20),
            _framed(b"x") + b"torn",
        ],
        [b"PSJ1", *_WORDS],
    ),
    "hashes": Target(
        hashes,
        [lead + _rows((0, 1, [0]), (1, 3, [0, 0, 1])) for lead in (b"S", b"-")],
        [b"PSK1", *_WORDS],
    ),
    "progress": Target(
        progress,
        [b"\n\n".join(map(encoded, _RECORDS)), *map(encoded, _RECORDS)],
        [*map(msgspec.msgpack.encode, _NO_RECORDS), b"\n\n", b"\xa1\xff"],
    ),
}
