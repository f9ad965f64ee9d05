"""One segment file: appending, its blocks, its index."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import DiskFullError, StorageError
from penstock.storage.cache import BlockCache
from penstock.storage.files.disk import OsDisk
from penstock.storage.index import BLOCK_BYTES, BlockIndex
from penstock.storage.segment import Segment, parse_segment_name, segment_name
from penstock.testing.disk import FaultyDisk
from tools.harness.small_logs import ID_BASE, bodies_of, make, make_all

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


def test_a_block_that_cannot_be_read_is_an_error_and_not_remembered(disk: FaultyDisk) -> None:
    made = segment(disk)
    cache = BlockCache()
    made.append([make(0, b"a")])
    disk.fail("read")
    with pytest.raises(StorageError):
        made.block(0, cache)
    assert bodies_of(made.block(0, cache).batches) == {0: b"a"}


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
