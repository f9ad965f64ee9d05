"""Blocks: finding a batch in one, and how many stay in memory."""

from __future__ import annotations

from penstock.storage.cache import Block, BlockCache
from penstock.storage.outline import Outline
from tools.harness.small_logs import make


def block(*spans: tuple[int, int], nbytes: int = 100) -> Block:
    """A block of one batch per half-open span of offsets."""
    return Block([make(first, *[b"x"] * (last - first)) for first, last in spans], bytes(nbytes))


def test_find_gives_the_first_batch_that_ends_behind_the_offset() -> None:
    found = block((10, 12), (12, 13), (13, 20))
    assert [found.find(offset) for offset in (0, 10, 11, 12, 13, 19, 20, 99)] == [
        0, 0, 0, 1, 2, 2, 3, 3,
    ]  # fmt: skip


def test_find_steps_over_gaps() -> None:
    found = block((10, 12), (20, 22), (30, 31))
    assert [found.find(offset) for offset in (11, 12, 19, 20, 21, 22, 29, 31)] == [
        0, 1, 1, 1, 1, 2, 2, 3,
    ]  # fmt: skip


def test_find_in_a_block_of_one_or_no_batch() -> None:
    assert [block((5, 7)).find(offset) for offset in (0, 5, 6, 7)] == [0, 0, 0, 1]
    assert block().find(3) == 0


def test_a_block_costs_its_bytes_and_something_for_each_batch() -> None:
    assert block((0, 1), nbytes=1000).nbytes > 1000
    many = block(*[(n, n + 1) for n in range(10)], nbytes=1000)
    assert many.nbytes - 1000 == 10 * (block((0, 1), nbytes=1000).nbytes - 1000)


def test_the_least_recently_used_block_leaves_first() -> None:
    one = block((0, 1))
    cache = BlockCache(3 * one.nbytes)
    for number in range(3):
        cache.put((1, number, 0), block((0, 1)))
    assert cache.get((1, 0, 0)) is not None  # used again, so that 1 is the oldest now
    cache.put((1, 3, 0), block((0, 1)))
    assert [number for number in range(4) if cache.get((1, number, 0))] == [0, 2, 3]
    assert len(cache) == 3


def test_a_key_that_is_put_again_counts_once() -> None:
    cache = BlockCache(2 * block((0, 1)).nbytes)
    for _ in range(10):
        newest = block((0, 1))
        cache.put((1, 0, 0), newest)
    cache.put((1, 1, 0), block((0, 1)))
    assert cache.get((1, 0, 0)) is newest
    assert len(cache) == 2


def test_a_large_block_drives_out_all_but_itself_and_leaves_in_turn() -> None:
    cache = BlockCache(3 * block((0, 1)).nbytes)
    cache.put((1, 0, 0), block((0, 1)))
    cache.put((1, 1, 0), block((0, 1), nbytes=1_000_000))
    assert len(cache) == 1
    assert cache.get((1, 1, 0)) is not None
    cache.put((1, 2, 0), block((0, 1)))
    assert cache.get((1, 1, 0)) is None
    assert cache.get((1, 2, 0)) is not None


def test_segment_block_and_end_are_all_part_of_the_key() -> None:
    cache = BlockCache()
    cache.put((1, 2, 3), block((0, 1)))
    assert [cache.get(key) for key in ((1, 2, 4), (1, 3, 3), (2, 2, 3))] == [None] * 3


def test_an_outline_makes_room_for_its_block() -> None:
    one = block((0, 1))
    cache = BlockCache(2 * one.nbytes)
    cache.put((1, 0, 0), Outline(bytes(make(0, b"x").raw), 0))
    cache.put((1, 0, 0), one)
    assert cache.get((1, 0, 0)) is one
    cache.put((1, 1, 0), block((0, 1)))
    assert len(cache) == 2


def test_many_outlines_have_room_where_few_blocks_have() -> None:
    raw = bytes(make(0, b"x" * 10_000).raw)
    cache = BlockCache(100_000, 100_000)
    outlines = [Outline(raw, 0) for _ in range(100)]
    for number, outline in enumerate(outlines):
        cache.put((1, number, 0), outline)
    assert len(cache) == 100
    kept = [outline for outline in outlines if outline.raw is not None]
    assert kept == outlines[-9:]
    assert cache.get((1, 0, 0)) is outlines[0]


def test_outlines_leave_too_when_even_they_have_no_room() -> None:
    cache = BlockCache(1000, 2000)
    for number in range(100):
        cache.put((1, number, 0), Outline(bytes(make(0, b"x").raw), 0))
    assert len(cache) == 2 + 4
    assert [number for number in range(100) if cache.get((1, number, 0))] == [*range(94, 100)]


def test_the_batch_of_an_offset() -> None:
    found = block((10, 12), (20, 22))
    batches = [found.batch(offset) for offset in (9, 10, 11, 12, 21, 22)]
    first, second = found.batches
    assert batches == [None, first, first, None, second, None]
