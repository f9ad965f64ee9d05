"""The log of an ephemeral topic."""

from __future__ import annotations

import pytest

from penstock.core.errors import OffsetOutOfRangeError
from penstock.core.ranges import RangeSet
from penstock.storage.memory_log import MemoryLog
from penstock.storage.retention import Retention
from tools.harness.small_logs import ID_BASE, make, publish, read_from


def filled(*groups: tuple[bytes, ...]) -> MemoryLog:
    log = MemoryLog(ID_BASE)
    for group in groups:
        publish(log, *group)
    return log


def ranges(*spans: tuple[int, int]) -> RangeSet:
    made = RangeSet()
    for first, next_ in spans:
        made.add(first, next_)
    return made


def test_it_gives_back_what_was_appended() -> None:
    log = filled((b"a", b"b"), (b"c",), (b"d", b"longer"))
    assert (log.start_offset, log.next_offset, log.next_id) == (0, 5, ID_BASE + 5)
    assert read_from(log, 0) == dict(enumerate([b"a", b"b", b"c", b"d", b"longer"]))
    batches, place = log.batches_at(1)
    assert batches[place].first_offset == 0
    assert log.nbytes == sum(len(batch.raw) for batch in batches)


def test_nothing_to_read() -> None:
    log = MemoryLog(ID_BASE, 7)
    assert (log.start_offset, log.next_offset, log.next_id) == (7, 7, ID_BASE + 7)
    for empty in (log, filled((b"a",))):
        batches, place = empty.batches_at(empty.next_offset)
        assert place == len(batches)
        assert empty.read_raw(empty.next_offset, 100) == []


def test_offsets_may_jump_forward_but_not_back() -> None:
    log = filled((b"a",))
    log.append([make(5, b"later")])
    assert read_from(log, 0) == {0: b"a", 5: b"later"}
    assert read_from(log, 1) == {5: b"later"}
    with pytest.raises(AssertionError):
        log.append([make(5, b"again")])


def test_read_raw() -> None:
    log = filled((b"a", b"b"), (b"c",), (b"d",))
    raws = [batch.raw for batch in log.batches_at(0)[0]]
    sizes = [len(raw) for raw in raws]
    assert log.read_raw(0, 0) == raws[:1]
    assert log.read_raw(1, 10**6) == raws
    assert log.read_raw(0, sizes[0] + sizes[1]) == raws[:2]
    assert log.read_raw(0, sizes[0] + sizes[1] - 1) == raws[:1]
    assert log.read_raw(3, 10**6) == raws[2:]
    log.trim(2, 0, Retention())
    for outside in (1, 5):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            log.read_raw(outside, 100)
        assert (caught.value.start, caught.value.end) == (2, 4)


def test_offset_at_a_time() -> None:
    log = MemoryLog(ID_BASE)
    for timestamp_ns in (10, 20, 20, 30):
        publish(log, b"a", b"b", timestamp_ns=timestamp_ns)
    assert [log.offset_at(time) for time in (0, 10, 11, 20, 21, 30, 31)] == [0, 0, 2, 2, 6, 6, 8]


def test_trim_lets_go_of_what_ends_before() -> None:
    log = filled((b"a", b"b"), (b"c",), (b"d", b"e"))
    assert log.trim(1, 0, Retention()) == 0
    assert log.start_offset == 1
    assert log.trim(4, 0, Retention()) == 2
    assert log.start_offset == 4
    assert read_from(log, 0) == {3: b"d", 4: b"e"}
    assert log.trim(99, 0, Retention()) == 1
    assert (log.start_offset, log.next_offset, log.nbytes) == (5, 5, 0)


def test_compaction_keeps_the_batches_that_are_needed() -> None:
    log = filled((b"a", b"b"), (b"c",), (b"d", b"e"), (b"f",))
    log.compact(ranges((2, 3), (4, 5)))
    assert read_from(log, 0) == {2: b"c", 3: b"d", 4: b"e"}
    assert log.start_offset == 2
    assert read_from(log, 3) == {3: b"d", 4: b"e"}
    log.compact(RangeSet())
    assert (log.start_offset, log.next_offset, log.nbytes) == (6, 6, 0)
    publish(log, b"next")
    assert read_from(log, log.start_offset) == {6: b"next"}


def test_compaction_is_wanted_when_it_holds_twice_as_much() -> None:
    log = filled(*[(b"x",) * 1000] * 2)
    assert not log.wants_compaction
    publish(log, b"x")
    assert log.wants_compaction
    log.compact(ranges((0, 2001)))
    assert not log.wants_compaction
    publish(log, *[b"x"] * 4001)
    assert not log.wants_compaction
    publish(log, b"x")
    assert log.wants_compaction
    log.trim(2001, 0, Retention())
    assert not log.wants_compaction


def test_there_is_nothing_to_sync_and_nothing_is_left_in_the_end() -> None:
    for end in (MemoryLog.close, MemoryLog.delete):
        log = filled((b"a",))
        log.flush()
        assert log.begin_sync(checkpoint=True) is None
        assert (log.failure, log.unsynced_messages, log.damage.pending) == (None, 0, [])
        end(log)
        assert log.nbytes == 0


def test_bytes_from_an_offset_on() -> None:
    log = filled((b"a", b"b"), (b"c",))
    assert log.bytes_from(0) == log.nbytes
    assert 0 < log.bytes_from(2) < log.nbytes
    assert log.bytes_from(3) == 0
