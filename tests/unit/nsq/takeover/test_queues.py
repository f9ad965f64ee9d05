"""Reading the queues of a Go nsqd: their files, around damage, messages of several stored once."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ConfigError, StorageError
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.nsq.takeover.data_file import (
    BATCH_BYTES_MAX,
    MESSAGE_MIN,
    Records,
    batches,
    cut,
    looks_whole,
)
from penstock.nsq.takeover.diskqueue import (
    Meta,
    Piece,
    QueueFiles,
    find_queues,
    missing,
    parse_meta,
    pieces,
)
from penstock.nsq.takeover.reader import QueueReader
from penstock.nsq.takeover.shared_records import KINDS_MAX, SharedRecords, merge
from penstock.testing.disk import FaultyDisk
from tools.harness.go_files import DATA, MESSAGE_MAX, NOW, Message, data, disk_with, messages, queue

# --- which files make a queue (NSQ spec 3.6)


def found(*names: str) -> list[tuple[str, str | None, list[int], bool]]:
    return [(q.topic, q.channel, q.numbers, q.has_meta) for q in find_queues(names)]


def test_files_are_put_together_by_their_names() -> None:
    names = (
        "t.diskqueue.000010.dat",
        "t.diskqueue.000009.dat",
        "t.diskqueue.meta.dat",
        "t:c.diskqueue.000000.dat",
        "w;d.diskqueue.meta.dat",
        "big.diskqueue.1234567.dat",
    )
    assert found(*names) == [
        ("big", None, [1234567], False),
        ("t", None, [9, 10], True),
        ("t", "c", [0], False),
        ("w", "d", [], True),
    ]
    for files_of in find_queues(names):
        assert set(files_of.names()) <= set(names)


@pytest.mark.parametrize(
    ("topic", "channel"), [("a.b", "c.d"), (".", ".."), ("x.diskqueue.000001.dat", "meta")]
)
def test_names_may_hold_dots_and_look_like_files(topic: str, channel: str) -> None:
    name = f"{topic}:{channel}.diskqueue.000002.dat"
    assert found(name) == [(topic, channel, [2], False)]


@pytest.mark.parametrize(
    "name",
    [
        "nsqd.dat", "topics", "t.diskqueue.000000.dat.bad", "t.diskqueue.meta.dat.1234.tmp",
        "t.diskqueue.00000.dat", "t.diskqueue.0000001.dat", "t b.diskqueue.000000.dat",
        "t:.diskqueue.000000.dat", "t:c:d.diskqueue.000000.dat", "t\n.diskqueue.meta.dat",
        "x" * 65 + ".diskqueue.meta.dat", "t#ephemeral:c.diskqueue.000000.dat",
    ],
)  # fmt: skip
def test_other_files_are_passed_over(name: str) -> None:
    assert found(name) == []


@pytest.mark.parametrize(
    ("data", "meta"),
    [
        (b"2\n0,0\n0,64\n", Meta(2, 0, 0, 0, 64)),
        (b"-3\n1,2\n10,20\n", Meta(-3, 1, 2, 10, 20)),
        *((data, None) for data in (b"", b"2\n0,0\n", b"x\n0,0\n0,0\n", b"2\n0,-1\n0,0\n",
                                    b"1\n5,0\n4,0\n", b"\0" * 12)),
    ],
)  # fmt: skip
def test_a_meta_file(data: bytes, meta: Meta | None) -> None:
    assert parse_meta(data) == meta


def files_of(*numbers: int) -> QueueFiles:
    return QueueFiles("t", None, "t", list(numbers), has_meta=True)


def test_all_behind_the_read_position_is_read() -> None:
    meta = Meta(9, 3, 40, 5, 10)
    assert pieces(files_of(2, 3, 4, 5, 6), meta) == [Piece(3, 40), Piece(4, 0), Piece(5, 0),
                                                  Piece(6, 0)]  # fmt: skip
    assert pieces(files_of(0, 7), None) == [Piece(0, 0), Piece(7, 0)]


@pytest.mark.parametrize(
    ("numbers", "meta", "gone"),
    [
        ((0, 1), Meta(1, 0, 0, 1, 5), []),
        ((), Meta(0, 4, 0, 4, 0), []),
        ((), Meta(0, 4, 70, 4, 70), []),
        ((3, 7), Meta(9, 1, 0, 8, 5), [(1, 2), (4, 6), (8, 8)]),
        ((3,), Meta(9, 3, 0, 4, 0), []),
        ((0, 2), None, [(1, 1)]),
        ((1, 5), Meta(0, 5, 3, 5, 9), []),
        ((), Meta(1, 0, 0, 10**18, 5), [(0, 10**18)]),
        ((), None, []),
    ],
)
def test_files_that_are_missing(
    numbers: tuple[int, ...], meta: Meta | None, gone: list[tuple[int, int]]
) -> None:
    assert missing(files_of(*numbers), meta) == gone


# --- records, and the batches made of them


SIZE_MAX = 1000 + MESSAGE_MIN


def test_the_sample_of_the_specification() -> None:
    raw = bytes.fromhex("0000001c18e9ead7dbd379a20000313861323838316564623466383030306d33")
    records = cut(raw, SIZE_MAX).records
    (batch,) = batches(records, 7, 0x100, NOW * 2)
    assert (batch.first_offset, batch.first_id, batch.count) == (7, 0x107, 1)
    assert batch.timestamp_ns == 0x18E9EAD7DBD379A2
    assert bytes(batch.frames) == (
        bytes.fromhex("00000020 00000002 18e9ead7dbd379a2 0001") + b"0000000000000107m3"
    )


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 65535), st.binary())),
    st.integers(0, 40),
)
def test_every_message_becomes_a_frame(
    content: list[tuple[int, int, bytes]], cut_short: int
) -> None:
    given_messages = [Message(*each) for each in content]
    raw = b"".join(
        struct.pack(">iqH", MESSAGE_MIN + len(m.body), m.timestamp, m.attempts) + b"i" * 16 + m.body
        for m in given_messages
    )
    raw = raw[: len(raw) - min(cut_short, len(raw))]
    found = cut(raw, SIZE_MAX)
    kept = given_messages[: len(found.records)]
    assert found.bad_length is None
    assert found.end == sum(30 + len(m.body) for m in kept)
    assert cut_short or len(kept) == len(given_messages)
    assert found.records.timestamps().tolist() == [m.timestamp for m in kept]
    assert found.records.attempts().tolist() == [m.attempts for m in kept]
    made = batches(found.records, 3, 0x50, NOW)
    reader = FrameReader()
    for batch in made:
        batch.verify()
        reader.receive_data(bytes(batch.frames))
    blocks = [b for b in reader.events() if isinstance(b, MessageBlock)]
    got = [message for block in blocks for message in block]
    assert [(m.timestamp_ns, m.body) for m in got] == [
        (m.timestamp % 2**64 - 2**64 * (m.timestamp < 0), m.body) for m in kept
    ]
    assert [(m.attempts, m.id) for m in got] == [
        (1, b"%016x" % (0x53 + index)) for index in range(len(kept))
    ]


@pytest.mark.parametrize("length", [-1, 0, 25, SIZE_MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("before", [0, 1, 30])
@pytest.mark.parametrize("size", [20, None])
def test_an_impossible_length_ends_the_reading(length: int, before: int, size: int | None) -> None:
    whole = [m for n in range(before) for m in messages([n], size=size or 6 + n % 5)]
    raw = data(whole) + struct.pack(">i", length) + data(messages([1, 2]))
    found = cut(raw, SIZE_MAX)
    assert (len(found.records), found.end, found.bad_length) == (before, len(data(whole)), length)


def test_the_largest_and_the_smallest_message() -> None:
    raw = data([Message(1, 0, b""), Message(2, 0, b"x" * 1000)])
    assert len(cut(raw, SIZE_MAX).records) == 2


def test_a_batch_is_bounded_unless_one_message_is_larger() -> None:
    sizes = [100] * 30_000 + [2 * BATCH_BYTES_MAX] + [10, 20] * 10
    raw = b"".join(Message(i, 0, b"x" * size).record() for i, size in enumerate(sizes))
    made = batches(cut(raw, 4 * BATCH_BYTES_MAX).records, 0, 0, NOW)
    assert sum(batch.count for batch in made) == len(sizes)
    assert [b.count for b in made if len(b.frames) > BATCH_BYTES_MAX * 1.1] == [1]
    assert len(made) < 10


def test_a_batch_has_the_time_of_its_newest_message_but_not_of_the_future() -> None:
    raw = data([Message(5, 0, b"a"), Message(9, 0, b"b"), Message(7, 0, b"c")])
    assert batches(cut(raw, SIZE_MAX).records, 0, 0, NOW)[0].timestamp_ns == 9
    raw = data([Message(2**62, 0, b"a")])
    assert batches(cut(raw, SIZE_MAX).records, 0, 0, NOW)[0].timestamp_ns == NOW
    raw = data([Message(-5, 0, b"a")])
    assert batches(cut(raw, SIZE_MAX).records, 0, 0, NOW)[0].timestamp_ns == 0


def test_records_that_do_not_lie_side_by_side_can_be_taken() -> None:
    records = cut(data(messages(range(10))), SIZE_MAX).records
    (batch,) = batches(records.take(records.timestamps() % 3000 == 0), 0, 0, NOW)
    positions = batch.positions().tolist()
    bodies = [bytes(batch.frames[p + 34 : p + 40]) for p in positions[:-1]]
    assert bodies == [m.body[:6] for m in messages(range(10)) if m.timestamp % 3000 == 0]
    assert 0 < len(bodies) < 10


def test_identities_leave_out_the_attempts_only() -> None:
    one = cut(data(messages([1])), SIZE_MAX).records.identities()
    assert one == cut(data(messages([1], attempts=7)), SIZE_MAX).records.identities()
    assert one != cut(data(messages([2])), SIZE_MAX).records.identities()
    assert one != cut(data(messages([1], size=21)), SIZE_MAX).records.identities()


def test_a_large_message_is_told_from_damage_by_its_id() -> None:
    raw = messages([1])[0].record()
    assert looks_whole(raw, 0, len(raw) - 4)
    assert not looks_whole(b"\x7f" + bytes(60), 0, 2**30)
    assert not looks_whole(raw, 0, 7)
    assert not looks_whole(raw[:20], 0, 2000)


# --- a queue, in chunks


def reader(disk: FaultyDisk, message_max: int = MESSAGE_MAX) -> QueueReader:
    (files,) = find_queues(disk.list(DATA))
    return QueueReader(disk, DATA, files, message_max)


def bodies(found: QueueReader, nbytes: int = 1 << 20) -> list[bytes]:
    return [identity[28:] for records in found.chunks(nbytes) for identity in records.identities()]


def texts(*found: list[Message]) -> list[bytes]:
    return [message.body for each in found for message in each]


@pytest.mark.parametrize("nbytes", [1, 10, 60, 1 << 20])
def test_files_are_read_in_their_order(nbytes: int, caplog: pytest.LogCaptureFixture) -> None:
    one, two = messages(range(9)), messages(range(9, 15), size=7)
    done = len(data(one[:2]))
    made = reader(disk_with(queue("t", one, two, first=999_999, read=(999_999, done))))
    assert made.nbytes == len(data(one[2:] + two))
    assert bodies(made, nbytes) == texts(one[2:], two)
    assert made.damaged == []
    assert [r.message for r in caplog.records] == [
        "IMPORT: queue t: holds 13 messages, 15 by its meta file"
    ]


def test_what_was_not_synced_is_salvaged(caplog: pytest.LogCaptureFixture) -> None:
    found = messages(range(6))
    made = reader(disk_with(queue("t", found, unsynced=2 * len(data(found[:1])))))
    assert bodies(made) == texts(found)
    assert not caplog.records


def test_without_a_meta_file_all_is_read() -> None:
    disk = disk_with(queue("t", messages(range(3)), messages(range(3, 5))))
    disk.remove(f"{DATA}/t.diskqueue.meta.dat")
    assert bodies(reader(disk)) == texts(messages(range(5)))


def test_a_meta_file_that_makes_no_sense_is_none(caplog: pytest.LogCaptureFixture) -> None:
    disk = disk_with(queue("t", messages(range(3))), {"t.diskqueue.meta.dat": b"\0\0\0"})
    assert bodies(reader(disk)) == texts(messages(range(3)))
    assert "t.diskqueue.meta.dat makes no sense" in caplog.text


def test_a_torn_end_and_a_missing_file(caplog: pytest.LogCaptureFixture) -> None:
    one, three = messages(range(4)), messages(range(6, 8))
    disk = disk_with(queue("t", one, messages([5]), three))
    disk.cut(f"{DATA}/t.diskqueue.000000.dat", len(data(one)) - 5)
    disk.remove(f"{DATA}/t.diskqueue.000001.dat")
    made = reader(disk)
    assert bodies(made) == texts(one[:3], three)
    assert made.damaged == ["t.diskqueue.000000.dat"]
    assert "t.diskqueue.000001.dat should be there and cannot be found" in caplog.text
    assert "000000.dat ends in the middle of a record at byte 150; what is before" in caplog.text
    assert "the 45 bytes from there on are not" in caplog.text
    assert "holds 5 messages, 7 by its meta file" in caplog.text


@pytest.mark.parametrize("nbytes", [1, 1 << 20])
def test_behind_damage_the_next_file_follows(nbytes: int, caplog: pytest.LogCaptureFixture) -> None:
    one, two = messages(range(4)), messages(range(4, 6))
    disk = disk_with(queue("t", one, two))
    disk.overwrite(f"{DATA}/t.diskqueue.000000.dat", b"\x7f\xff\xff\xff", len(data(one[:1])))
    made = reader(disk)
    assert bodies(made, nbytes) == texts(one[:1], two)
    assert made.damaged == ["t.diskqueue.000000.dat"]
    assert "has a record with the impossible length 2147483647 at byte 50" in caplog.text
    assert "the 150 bytes from there on are not" in caplog.text


@pytest.mark.parametrize("nbytes", [1, 1 << 20])
def test_a_message_above_the_limit_of_now_is_no_damage(nbytes: int) -> None:
    found = [*messages([1]), *messages([2], size=MESSAGE_MAX + 1), *messages([3])]
    made = reader(disk_with(queue("t", found)))
    with pytest.raises(ConfigError) as refused:
        bodies(made, nbytes)
    assert str(refused.value) == (
        "/data/t.diskqueue.000000.dat holds a message of 1025 bytes, more than --max-msg-size "
        "1024: start with --max-msg-size=1025 or more"
    )
    assert bodies(reader(disk_with(queue("t", found)), 1025), nbytes) == texts(found)


def test_a_length_beyond_the_file_is_damage() -> None:
    found = messages([1, 2])
    disk = disk_with(queue("t", found))
    disk.overwrite(f"{DATA}/t.diskqueue.000000.dat", (5000).to_bytes(4, "big"), 50)
    made = reader(disk)
    assert bodies(made) == texts(found[:1])
    assert made.damaged


def test_a_disk_that_cannot_be_read_is_told() -> None:
    disk = disk_with(queue("t", messages(range(3))))
    made = reader(disk)
    disk.fail("read", within="000000.dat")
    with pytest.raises(StorageError, match=r"t\.diskqueue\.000000\.dat"):
        bodies(made)


# --- messages that several queues hold


Held = list[Message]


def chunks(held: Held, count: int) -> Iterator[Records]:
    for start in range(0, len(held), count):
        yield cut(data(held[start : start + count]), 10_000).records


def merged(*queues: Held, count: int = 10) -> list[SharedRecords]:
    return list(merge([chunks(held, count) for held in queues]))


def contents(shares: list[SharedRecords], lane: int) -> Counter[tuple[bytes, int]]:
    return Counter(
        (identity, share.attempts)
        for share in shares
        if lane in share.lanes
        for identity in share.records.identities()
    )


def check(shares: list[SharedRecords], queues: tuple[Held, ...]) -> int:
    """Every queue gets back what it held; how many messages are stored."""
    for lane, held in enumerate(queues):
        records = cut(data(held), 10_000).records
        wanted = zip(records.identities(), (m.attempts for m in held), strict=True)
        assert contents(shares, lane) == Counter(wanted)
    for share in shares:
        assert len(share.records)
        assert len(set(share.lanes)) == len(share.lanes)
    return sum(len(share.records) for share in shares)


def test_equal_queues_are_stored_once_and_in_order() -> None:
    held = messages(range(95))
    shares = merged(held, held, held)
    assert check(shares, (held, held, held)) == 95
    assert {share.lanes for share in shares} == {(0, 1, 2)}
    order = [identity for share in shares for identity in share.records.identities()]
    assert order == sorted(order)


def test_what_was_delivered_keeps_its_attempts_and_is_stored_apart() -> None:
    again = messages([3], 1) + messages([5], 2)
    queues = messages([0, 1, 2, 4]) + again, messages(range(6))
    shares = merged(*queues)
    assert check(shares, queues) == 8
    assert {(share.lanes, share.attempts) for share in shares if share.attempts} == {
        ((0,), 1),
        ((0,), 2),
    }


DELIVERED = messages(range(5)) + messages(range(5, 8), 3)


@pytest.mark.parametrize(
    ("queues", "stored"),
    [
        ((messages(range(25)), []), 25),
        ((messages(range(200)), messages(range(63, 200)), messages(range(190, 200))), 200),
        ((DELIVERED, DELIVERED), 8),
        ((messages([1, 2, 1]), messages([1, 2])), 3),
        (([Message(5, 0, b"one")], [Message(5, 0, b"two")]), 2),
    ],
    ids=["alone", "ahead-of-others", "with-attempts", "twice-stays-twice", "another-body"],
)
def test_how_many_are_stored(queues: tuple[Held, ...], stored: int) -> None:
    assert check(merged(*queues), queues) == stored


def test_sets_of_channels_are_bounded() -> None:
    chance = random.Random(3)
    queues = tuple([m for m in messages(range(600)) if chance.random() < 0.5] for _ in range(12))
    shares = merged(*queues, count=1000)
    stored = check(shares, queues)
    assert len(shares) <= KINDS_MAX + 12 * 12
    assert stored <= sum(map(len, queues))


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0, 0, 0, 1, 7]))),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 9),
)
def test_whatever_the_queues_hold_each_gets_its_own(
    numbers: list[list[tuple[int, int]]], count: int
) -> None:
    queues = tuple([m for n, a in held for m in messages([n], a)] for held in numbers)
    assert check(merged(*queues, count=count), queues) <= sum(map(len, queues))


@pytest.mark.parametrize("count", [1, 3, 50])
def test_memory_first_then_disk_as_go_flushes(count: int) -> None:
    """The overflow on disk is newer than what was in memory and was appended at the stop."""
    held = messages(range(50, 200)) + messages(range(50))
    shares = merged(held, held, count=count)
    assert check(shares, (held, held)) == 200
