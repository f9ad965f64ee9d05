"""Records of Go's queue files, and the batches made of them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.nsq.takeover.data_file import BATCH_BYTES_MAX, MESSAGE_MIN, batches, cut, looks_whole
from tools.harness.go_files import NOW, Message, data, messages

MAX = 1000 + MESSAGE_MIN


def test_the_sample_of_the_specification() -> None:
    raw = bytes.fromhex("0000001c18e9ead7dbd379a20000313861323838316564623466383030306d33")
    records = cut(raw, MAX).records
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
    found = cut(raw, MAX)
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


@pytest.mark.parametrize("length", [-1, 0, 25, MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("before", [0, 1, 30])
@pytest.mark.parametrize("size", [20, None])
def test_an_impossible_length_ends_the_reading(length: int, before: int, size: int | None) -> None:
    whole = [m for n in range(before) for m in messages([n], size=size or 6 + n % 5)]
    raw = data(whole) + struct.pack(">i", length) + data(messages([1, 2]))
    found = cut(raw, MAX)
    assert (len(found.records), found.end, found.bad_length) == (before, len(data(whole)), length)


def test_the_largest_and_the_smallest_message() -> None:
    raw = data([Message(1, 0, b""), Message(2, 0, b"x" * 1000)])
    assert len(cut(raw, MAX).records) == 2


def test_a_batch_is_bounded_unless_one_message_is_larger() -> None:
    sizes = [100] * 30_000 + [2 * BATCH_BYTES_MAX] + [10, 20] * 10
    raw = b"".join(Message(i, 0, b"x" * size).record() for i, size in enumerate(sizes))
    made = batches(cut(raw, 4 * BATCH_BYTES_MAX).records, 0, 0, NOW)
    assert sum(batch.count for batch in made) == len(sizes)
    assert [b.count for b in made if len(b.frames) > BATCH_BYTES_MAX * 1.1] == [1]
    assert len(made) < 10


def test_a_batch_has_the_time_of_its_newest_message_but_not_of_the_future() -> None:
    raw = data([Message(5, 0, b"a"), Message(9, 0, b"b"), Message(7, 0, b"c")])
    assert batches(cut(raw, MAX).records, 0, 0, NOW)[0].timestamp_ns == 9
    raw = data([Message(2**62, 0, b"a")])
    assert batches(cut(raw, MAX).records, 0, 0, NOW)[0].timestamp_ns == NOW
    raw = data([Message(-5, 0, b"a")])
    assert batches(cut(raw, MAX).records, 0, 0, NOW)[0].timestamp_ns == 0


def test_records_that_do_not_lie_side_by_side_can_be_taken() -> None:
    records = cut(data(messages(range(10))), MAX).records
    (batch,) = batches(records.take(records.timestamps() % 3000 == 0), 0, 0, NOW)
    positions = batch.positions().tolist()
    bodies = [bytes(batch.frames[p + 34 : p + 40]) for p in positions[:-1]]
    assert bodies == [m.body[:6] for m in messages(range(10)) if m.timestamp % 3000 == 0]
    assert 0 < len(bodies) < 10


def test_identities_leave_out_the_attempts_only() -> None:
    one = cut(data(messages([1])), MAX).records.identities()
    assert one == cut(data(messages([1], attempts=7)), MAX).records.identities()
    assert one != cut(data(messages([2])), MAX).records.identities()
    assert one != cut(data(messages([1], size=21)), MAX).records.identities()


def test_a_large_message_is_told_from_damage_by_its_id() -> None:
    raw = messages([1])[0].record()
    assert looks_whole(raw, 0, len(raw) - 4)
    assert not looks_whole(b"\x7f" + bytes(60), 0, 2**30)
    assert not looks_whole(raw, 0, 7)
    assert not looks_whole(raw[:20], 0, 2000)
