"""One segment file, and the log of an ephemeral topic, which has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import DiskFullError, OffsetOutOfRangeError, StorageError
from penstock.core.ranges import RangeSet
from penstock.storage.cache import BlockCache
from penstock.storage.files.disk import OsDisk
from penstock.storage.index import BLOCK_BYTES, BlockIndex
from penstock.storage.memory_log import MemoryLog
from penstock.storage.retention import Retention
from penstock.storage.segment import Segment, parse_segment_name, segment_name
from penstock.testing.disk import FaultyDisk
from tools.harness.small_logs import ID_BASE, bodies_of, make, make_all, publish, read_from

PATH = f"/data/{segment_name(0)}"


def segment(disk: FaultyDisk) -> Segment:
    return Segment.create(disk, "/data", 0, ID_BASE)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/data")


def test_names_sort_like_their_offsets_and_come_back() -> None:
    offsets = [0, 9, 10, 2**40, 2**63]
    names = [segment_name(offset) for offset in offsets]
    assert names == sorted(names)
    assert [parse_segment_name(name) for name in names] == offsets
    assert names[0] == "00000000000000000000.log"


@pytest.mark.parametrize(
    "name",
    ["", "0.log", "queue.json", f"{0:020d}", f"{0:020d}.index", f"{0:020d}.log.tmp",
     f"{0:021d}.log", "x" * 20 + ".log", "-" + "0" * 19 + ".log", "²" * 20 + ".log",
     "cursors.journal"],
)  # fmt: skip
def test_other_names_are_no_segments(name: str) -> None:
    assert parse_segment_name(name) is None


def test_append_writes_the_batches_back_to_back(disk: FaultyDisk) -> None:
    made = segment(disk)
    batches = make_all([[b"a"], [b"b", b"cc"], [b"d"]])
    made.append(batches[:1])
    made.append(batches[1:])
    assert disk.content(PATH) == b"".join(batch.raw for batch in batches)
    assert made.size == len(disk.content(PATH))
    assert (made.first_offset, made.next_offset, made.last_timestamp_ns) == (0, 4, 3)


def test_the_last_timestamp_is_the_latest(disk: FaultyDisk) -> None:
    made = segment(disk)
    made.append([make(0, b"a", timestamp_ns=50)])
    made.append([make(1, b"b", timestamp_ns=20)])
    assert made.last_timestamp_ns == 50


def test_a_failed_append_changes_nothing(disk: FaultyDisk) -> None:
    made = segment(disk)
    disk.leaves_partial_writes = True
    made.append([make(0, b"a")])
    before = (made.size, made.next_offset, made.last_timestamp_ns, len(made.index))
    disk.fill(20)
    with pytest.raises(DiskFullError):
        made.append([make(1, b"a long one" * 10, timestamp_ns=99)])
    assert before == (made.size, made.next_offset, made.last_timestamp_ns, len(made.index))
    disk.heal()
    made.append([make(1, b"b")])
    assert bodies_of(made.block(0, BlockCache()).batches) == {0: b"a", 1: b"b"}


def large(disk: FaultyDisk) -> Segment:
    """A segment of three blocks with three batches each."""
    made = segment(disk)
    made.append(make_all([[b"%d" % n, b"x" * (BLOCK_BYTES // 3)] for n in range(9)]))
    assert len(made.index) == 3
    return made


def test_blocks_hold_all_batches_once(disk: FaultyDisk) -> None:
    made = large(disk)
    spans = [made.span(number) for number in range(3)]
    assert [start for start, _ in spans] == [0, spans[0][1], spans[1][1]]
    assert spans[2][1] == made.size
    blocks = [made.block(number, BlockCache()) for number in range(3)]
    firsts = [batch.first_offset for block in blocks for batch in block.batches]
    assert firsts == list(range(0, 18, 2))


def test_a_block_is_read_once_until_it_grows(disk: FaultyDisk) -> None:
    made = segment(disk)
    cache = BlockCache()
    made.append([make(0, b"a")])
    block = made.block(0, cache)
    disk.fail("read", times=-1)
    assert made.block(0, cache) is block
    disk.heal()
    made.append([make(1, b"b")])
    assert bodies_of(made.block(0, cache).batches) == {0: b"a", 1: b"b"}


def test_segments_do_not_share_blocks(disk: FaultyDisk) -> None:
    cache = BlockCache()
    one = segment(disk)
    other = Segment.create(disk, "/data", 500, ID_BASE)
    one.append([make(0, b"a")])
    other.append([make(500, b"b")])
    assert one.size == other.size
    assert bodies_of(one.block(0, cache).batches) == {0: b"a"}
    assert bodies_of(other.block(0, cache).batches) == {500: b"b"}


def test_what_is_before_a_segment_is_not_in_it(tmp_path: Path) -> None:
    made = Segment.create(OsDisk(), str(tmp_path), 500, ID_BASE)
    made.append(make_all([[b"x" * BLOCK_BYTES] for _ in range(3)], first=500))
    assert len(made.index) == 3
    assert [made.batch(offset, BlockCache()) is None for offset in (0, 499, 500)] == [
        True, True, False,
    ]  # fmt: skip
    assert made.damage.pending == []


def test_damage_in_a_block_is_left_out_and_logged(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    made = segment(disk)
    batches = make_all([[b"a"], [b"b", b"cc"], [b"d"]])
    made.append(batches)
    disk.flip(PATH, 8 * (len(batches[0].raw) + 70))
    assert bodies_of(made.block(0, BlockCache()).batches) == {0: b"a", 3: b"d"}
    assert "000.log at bytes 65 to 144: damaged, stepped over; 2 messages are lost" in caplog.text


def test_a_file_that_lost_its_end_is_logged(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    made = segment(disk)
    batches = make_all([[b"a"], [b"b"]])
    made.append(batches)
    disk.cut(PATH, len(batches[0].raw))
    assert bodies_of(made.block(0, BlockCache()).batches) == {0: b"a"}
    assert "cut short; 1 message is lost, offset 1" in caplog.text


def test_the_index_speaks_of_the_segment_as_it_is(disk: FaultyDisk) -> None:
    made = large(disk)
    index, size, next_offset, timestamp_ns = BlockIndex.decode(made.encode_index(), made.first_id)
    assert (size, next_offset, timestamp_ns) == (made.size, 18, 16)
    assert index.positions == made.index.positions
    assert made.index_path == PATH.removesuffix(".log") + ".index"


def test_delete_removes_both_files(disk: FaultyDisk) -> None:
    made = segment(disk)
    disk.replace_file(made.index_path, made.encode_index())
    disk.replace_file("/data/other", b"")
    made.delete(disk)
    assert disk.paths() == ["/data/other"]
    with pytest.raises(StorageError):
        made.append([make(0, b"late")])


def test_a_new_segment_has_no_old_index(disk: FaultyDisk) -> None:
    disk.replace_file(PATH.removesuffix(".log") + ".index", b"old")
    segment(disk)
    assert disk.paths() == [PATH]


def test_a_cut_brings_back_what_the_segment_was(disk: FaultyDisk) -> None:
    made = segment(disk)
    made.append([make(0, b"a", timestamp_ns=50)])
    place, content = made.place(made.size, made.next_offset), disk.content(PATH)
    made.append([make(1, bytes(BLOCK_BYTES), timestamp_ns=60), make(2, b"c", timestamp_ns=70)])
    assert len(made.index) == 2
    made.cut(place)
    assert disk.content(PATH) == content
    assert (made.next_offset, made.last_timestamp_ns, len(made.index)) == (1, 50, 1)


# --- The log of an ephemeral topic ---------------------------------------------------------------


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
