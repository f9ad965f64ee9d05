"""The table of staged parts."""

from __future__ import annotations

import pytest

from penstock.broker.publish.parts import (
    CHUNK_BYTES_MIN,
    Attempt,
    Chunk,
    ChunkKey,
    PartNotFoundError,
    Parts,
    StageFullError,
)

BIG = CHUNK_BYTES_MIN * 2


def put(
    parts: Parts, batch: int, *key: int, topic: str = "t", writer: str = "w", now: int = 0
) -> Chunk | None:
    """Stage a chunk; the one that it replaces."""
    return parts.put(topic, writer, batch, ChunkKey(*key), parts.reserve(BIG, 1), now)


def numbers(parts: Parts, batch: int, *attempts: tuple[int, int, int]) -> list[int]:
    """Of the chunks of these attempts."""
    found = parts.chunks("t", "w", batch, [Attempt(*each) for each in attempts])
    return [chunk.number for _, chunk in found]


def test_chunks_come_by_part_and_chunk_whatever_the_order_they_were_staged_in() -> None:
    parts = Parts(100 * BIG)
    for key in ((1, 0, 0), (0, 5, 1), (0, 5, 0), (0, 4, 0)):
        put(parts, 7, *key)
    assert numbers(parts, 7, (1, 0, 1), (0, 5, 2)) == [3, 2, 1]
    assert numbers(parts, 7, (1, 0, 0)) == []
    assert numbers(parts, 8) == []


@pytest.mark.parametrize("attempt", [(0, 0, 2), (0, 1, 1), (1, 0, 1)])
def test_a_chunk_that_is_missing_is_named(attempt: tuple[int, int, int]) -> None:
    parts = Parts(100 * BIG)
    put(parts, 7, 0, 0, 0)
    with pytest.raises(PartNotFoundError) as caught:
        numbers(parts, 7, attempt)
    part, number, chunks = attempt
    assert caught.value.key == ChunkKey(part, number, chunks - 1)


def test_a_chunk_replaces_the_one_in_its_place_and_its_bytes() -> None:
    parts = Parts(100 * BIG)
    assert put(parts, 7, 0, 0, 0) is None
    replaced = put(parts, 7, 0, 0, 0)
    assert replaced is not None
    assert replaced.number == 1
    assert numbers(parts, 7, (0, 0, 1)) == [2]
    assert parts.nbytes == BIG


def test_bytes_are_bounded_and_small_chunks_count_as_larger() -> None:
    parts = Parts(3 * CHUNK_BYTES_MIN)
    chunk = parts.reserve(BIG, 1)
    assert parts.reserve(1, 1).nbytes == CHUNK_BYTES_MIN
    with pytest.raises(StageFullError) as caught:
        parts.reserve(1, 1)
    assert caught.value.limit == 3 * CHUNK_BYTES_MIN
    parts.release(chunk)
    assert parts.reserve(1, 1).number == 3


def test_a_batch_that_is_dropped_gives_back_its_numbers_and_its_room() -> None:
    parts = Parts(100 * BIG)
    for key in ((0, 0, 0), (0, 0, 1)):
        put(parts, 7, *key)
    (batch,) = parts
    assert parts.drop(batch) == [1, 2]
    assert (len(parts), parts.nbytes) == (0, 0)


def test_a_commit_makes_earlier_batches_of_its_writer_and_topic_needless() -> None:
    parts = Parts(100 * BIG)
    for batch in (6, 7, 8):
        put(parts, batch, 0, 0, 0)
    put(parts, 6, 0, 0, 0, topic="u")
    put(parts, 6, 0, 0, 0, writer="v")
    assert [each.batch for each in parts.committed("t", "w", 7)] == [6, 7]
    assert [each.batch for each in parts.of_topic("u")] == [6]


def test_batches_expire_by_the_time_of_their_newest_chunk() -> None:
    parts = Parts(100 * BIG)
    put(parts, 6, 0, 0, 0, now=10)
    put(parts, 7, 0, 0, 0, now=20)
    put(parts, 6, 0, 0, 1, now=30)
    assert [each.batch for each in parts.expired(25)] == [7]


def test_what_an_earlier_process_staged_counts_and_its_numbers_are_not_used_again() -> None:
    parts = Parts(2 * BIG)
    restored = [parts.chunk(number, BIG, 1) for number in (4, 9)]
    assert parts.restore("t", "w", 7, ChunkKey(0, 0, 0), restored[0], 5) is None
    assert parts.restore("t", "w", 7, ChunkKey(0, 0, 0), restored[1], 5) == restored[0]
    assert parts.nbytes == BIG
    assert parts.reserve(BIG, 1).number == 10


def test_a_chunk_that_cannot_be_read_is_forgotten() -> None:
    parts = Parts(100 * BIG)
    put(parts, 7, 0, 0, 0)
    parts.lose("t", "w", 7, ChunkKey(0, 0, 0))
    parts.lose("t", "w", 7, ChunkKey(0, 0, 0))
    assert parts.nbytes == 0
    with pytest.raises(PartNotFoundError):
        numbers(parts, 7, (0, 0, 1))


def test_some_chunks_of_a_batch_are_dropped_with_their_bytes() -> None:
    parts = Parts(100 * BIG)
    for key in ((0, 0, 0), (0, 1, 0), (1, 0, 0)):
        put(parts, 7, *key)
    batch = parts.of_topic_batch("t", "w", 7)
    assert batch is not None
    assert parts.drop_chunks(batch, [ChunkKey(0, 0, 0), ChunkKey(1, 0, 0)]) == [1, 3]
    assert parts.nbytes == BIG
    assert list(batch.chunks) == [ChunkKey(0, 1, 0)]
    assert parts.of_topic_batch("t", "w", 8) is None


def test_batches_up_to_a_number_are_of_all_topics() -> None:
    parts = Parts(100 * BIG)
    for number, topic in ((6, "t"), (7, "u"), (8, "t")):
        put(parts, number, 0, 0, 0, topic=topic)
    put(parts, 6, 0, 0, 0, writer="other")
    assert [(each.batch, each.topic) for each in parts.up_to("w", 7)] == [(6, "t"), (7, "u")]
