"""Reading a log where its parts meet: memory and files, blocks, segments, gaps, bad spots."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import ReadOnlyError, StorageError
from penstock.storage.batch import Batch, iter_batches
from penstock.storage.cache import BlockCache
from penstock.storage.index import BLOCK_BYTES
from penstock.storage.log import Log, LogOptions
from penstock.storage.recovery import opening as recovery
from penstock.storage.recovery.opening import open_log
from penstock.testing.disk import FaultyDisk
from tools.harness.small_logs import (
    DIRECTORY,
    ID_BASE,
    INDEX,
    NO_MEMORY,
    SEGMENT,
    bodies_of,
    make,
    new_disk,
    open_at,
    publish,
    read_from,
    segment_path,
)

FILLER = b"." * (BLOCK_BYTES // 4)
ALL = 1 << 40


def publish_many(log: Log, batches: int) -> dict[int, bytes]:
    """Batches of two messages, four of them a block; all bodies by offset."""
    return bodies_of(
        [publish(log, b"%d" % log.next_offset, b"%d" % log.next_offset + FILLER)
         for _ in range(batches)]
    )  # fmt: skip


def raw_from(log: Log, offset: int, nbytes: int) -> Sequence[Batch]:
    pieces = log.read_raw(offset, nbytes)
    batches = [batch for piece in pieces for batch in iter_batches(piece)]
    assert sum(map(len, pieces)) == sum(len(batch.raw) for batch in batches)
    return batches


def spoiled(*bad: int) -> tuple[Log, dict[int, bytes]]:
    """An opened log of ten batches, those numbered ``bad`` damaged after it was indexed."""
    disk = new_disk()
    log, _ = open_at(disk, max_bytes_per_file=3 * BLOCK_BYTES)
    written = publish_many(log, 20)
    log.close()
    places = [(s.file.path, at, b) for s in log.segments for at, b in located(disk, s.file.path)]
    for number in bad:
        path, at, batch = places[number]
        disk.flip(path, 8 * (at + len(batch.raw) - 1))
        del written[batch.first_offset], written[batch.first_offset + 1]
    disk.crash("written")
    log, report = open_at(disk, max_bytes_per_file=3 * BLOCK_BYTES)
    assert report.scanned == 0
    assert log.next_offset == 40
    return log, written


def located(disk: FaultyDisk, path: str) -> list[tuple[int, Batch]]:
    position = 0
    found = []
    for batch in iter_batches(disk.content(path)):
        found.append((position, batch))
        position += len(batch.raw)
    return found


@pytest.mark.parametrize(
    "bad",
    [(0,), (3,), (4,), (3, 4), (0, 1, 2, 3), (4, 5, 6, 7), (11,), (12,), (11, 12), (19,),
     tuple(range(3, 18)), tuple(range(12)), tuple(range(20))],
)  # fmt: skip
def test_bad_batches_are_stepped_over_wherever_they_are(bad: tuple[int, ...]) -> None:
    log, written = spoiled(*bad)
    assert read_from(log, 0) == written
    assert bodies_of(raw_from(log, 0, ALL)) == written
    for offset in range(40):
        batches, place = log.batches_at(offset)
        found = batches[place].first_offset if place < len(batches) else None
        assert found == min((o - o % 2 for o in written if o >= offset), default=None)
        assert bodies_of(raw_from(log, offset, ALL)) == {
            o: body for o, body in written.items() if o >= offset - offset % 2
        }
    for time_ns in range(41):
        assert log.offset_at(time_ns) == min(
            (o for o in written if not o % 2 and o >= time_ns), default=40
        )


def test_what_is_new_needs_no_disk_after_a_restart() -> None:
    disk = new_disk()
    log, _ = open_at(disk)
    written = publish_many(log, 5)
    disk.crash("written")
    log, _ = open_at(disk)
    written |= publish_many(log, 3)
    disk.fail("read", times=-1)
    batches, place = log.batches_at(10)
    assert bodies_of(batches[place:]) == {o: b for o, b in written.items() if o >= 10}


def test_the_cache_serves_the_second_reader_and_stays_in_its_budget() -> None:
    disk = new_disk()
    cache = BlockCache(2 * BLOCK_BYTES)
    log, _ = open_log(disk, DIRECTORY, ID_BASE, cache, LogOptions(mem_queue_size=NO_MEMORY))
    written = publish_many(log, 20)
    assert len(log.segments[0].index) > 3
    assert read_from(log, 0) == written
    assert 1 <= len(cache) <= 2
    log.batches_at(0)
    disk.fail("read", times=-1)
    batches, _ = log.batches_at(1)
    assert batches[0].first_offset == 0


def test_100_000_single_message_batches_are_read_in_order_in_sane_time() -> None:
    """A cost that grows with the square of the batches would take minutes."""
    disk = new_disk()
    open_at(disk)
    raw = b"".join(make(offset, b"%06d" % offset).raw for offset in range(100_000))
    disk.overwrite(SEGMENT, raw)
    disk.crash("written")
    began = time.process_time()
    log, report = open_at(disk)
    assert report.scanned == len(raw)
    offset = 0
    while offset < log.next_offset:
        batches, place = log.batches_at(offset)
        for batch in batches[place:]:
            assert batch.first_offset == offset
            assert batch.frames == b"%06d" % offset
            offset = batch.next_offset
    assert offset == 100_000
    assert time.process_time() - began < 10


# --- recovery of what only large or unlucky logs have ------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_failed_sync_is_over_when_the_log_is_opened_again(seed: int) -> None:
    disk = new_disk()
    log, _ = open_at(disk)
    publish(log, b"synced")
    log.sync()
    publish(log, b"perhaps")
    disk.fail("sync")
    with pytest.raises(StorageError):
        log.sync()
    with pytest.raises(ReadOnlyError):
        publish(log, b"refused")
    disk.crash(SystemChance(seed))
    log, _ = open_at(disk)
    assert log.failure is None
    publish(log, b"taken again")
    log.sync()
    disk.crash(SystemChance(seed))
    found = list(read_from(open_at(disk)[0], 0).values())
    assert found[0] == b"synced"
    assert found[-1] == b"taken again"
    assert found[1:-1] in ([], [b"perhaps"])


def test_a_message_that_holds_a_batch_does_not_pass_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would, did the reading in windows search a batch that the window cuts."""
    inner = bytes(make(2, b"planted").raw)
    for window in range(100, 1200, 7):
        monkeypatch.setattr(recovery, "WINDOW_BYTES", window)
        disk = new_disk()
        log, _ = open_at(disk)
        publish(log, b"a" * 100)
        publish(log, b"before" + inner + b"behind" * 60)
        publish(log, b"c" * 100)
        written = read_from(log, 0)
        disk.crash("written")
        log, report = open_at(disk)
        assert (report.torn, report.damaged) == (0, 0)
        assert read_from(log, 0) == written


def test_every_window_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = new_disk()
    log, _ = open_at(disk)
    written = [publish(log, *[b"%d" % n] * (1 + n % 4)) for n in range(12)]
    places = located(disk, SEGMENT)
    disk.flip(SEGMENT, 8 * places[3][0] + 8 * 4 + 3)  # the length of one
    disk.flip(SEGMENT, 8 * (places[7][0] + 66))  # the body of another
    disk.overwrite(SEGMENT, b"torn", len(disk.content(SEGMENT)))
    whole = disk.content(SEGMENT)
    good = [batch for n, batch in enumerate(written) if n not in (3, 7)]
    damaged = len(written[3].raw) + len(written[7].raw)
    for window in range(64, len(whole) + 10, 5):
        monkeypatch.setattr(recovery, "WINDOW_BYTES", window)
        disk = new_disk()
        open_at(disk)
        disk.overwrite(SEGMENT, whole)
        disk.crash("written")
        log, report = open_at(disk)
        assert (report.torn, report.damaged, log.damage.lost_messages) == (4, damaged, 8)
        assert read_from(log, 0) == bodies_of(good)


def test_every_flipped_bit_of_a_finished_segment_costs_its_batch_only() -> None:
    """Also of its last one, which in the newest segment would be a torn tail."""
    disk = new_disk()
    log, _ = open_at(disk, max_bytes_per_file=300)
    batches = [publish(log, b"a", b"bc"), publish(log, b"one", b"two"), publish(log, b"z" * 60)]
    publish(log, b"in the next segment")
    assert [s.first_offset for s in log.segments] == [0, 5]
    whole, rest = disk.content(SEGMENT), disk.content(segment_path(5))
    starts = [at for at, _ in located(disk, SEGMENT)]
    everything = read_from(log, 0)
    for bit in range(8 * len(whole)):
        disk = new_disk()
        open_at(disk)
        disk.overwrite(SEGMENT, whole)
        disk.replace_file(segment_path(5), rest)
        disk.flip(SEGMENT, bit)
        disk.crash("written")
        log, report = open_at(disk, max_bytes_per_file=300)
        hit = batches[max(n for n, at in enumerate(starts) if at <= bit // 8)]
        expected = {o: b for o, b in everything.items()
                    if not hit.first_offset <= o < hit.next_offset}  # fmt: skip
        assert read_from(log, 0) == expected
        assert (report.torn, report.damaged) == (0, len(hit.raw))
        assert len(disk.content(SEGMENT)) == len(whole)
        assert [len(disk.content(path)) for path in disk.paths(".bad")] == [len(hit.raw)]


def test_every_cut_of_a_segment_that_has_an_index() -> None:
    disk = new_disk()
    log, _ = open_at(disk)
    batches = [publish(log, b"a", b"bc"), publish(log, b"one", b"two"), publish(log, b"z" * 9)]
    log.close()
    whole, index = disk.content(SEGMENT), disk.content(INDEX)
    ends = [0, *(at for at, _ in located(disk, SEGMENT)[1:]), len(whole)]
    for size in range(len(whole) + 1):
        disk = new_disk()
        open_at(disk)
        disk.overwrite(SEGMENT, whole[:size])
        disk.replace_file(INDEX, index)
        disk.crash("written")
        log, report = open_at(disk)
        good = sum(end <= size for end in ends) - 1
        assert read_from(log, 0) == bodies_of(batches[:good])
        assert (report.torn, report.damaged) == (size - ends[good], 0)
        kept = ([0] + [batch.next_offset for batch in batches])[good]
        assert (log.next_offset, log.damage.lost_messages) == (5, 5 - kept)
        publish(log, b"next")
        disk.crash("written")
        log, _ = open_at(disk)
        assert read_from(log, 0) == {**bodies_of(batches[:good]), 5: b"next"}
        assert (log.next_offset, log.damage.lost_messages) == (6, 5 - kept)
