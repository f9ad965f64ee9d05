"""Staged parts and what is decided about them."""

from __future__ import annotations

import pytest

from penstock.broker.publish import decisions as module
from penstock.broker.publish.decisions import (
    ChunksMissingError,
    DecidedError,
    Decision,
    Decisions,
    NodeShare,
    NotDecidedError,
    TopicShare,
    attempts_in,
    decode_decision,
    encode_decision,
    losers,
    shares,
)
from penstock.broker.publish.parts import (
    CHUNK_BYTES_MIN,
    Attempt,
    Chunk,
    ChunkKey,
    PartNotFoundError,
    Parts,
    StagedBatch,
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


# --- The table of decisions ----------------------------------------------------------------------


NODES = (NodeShare("a:1", 2), NodeShare("b:1", 0))
W = ("w", "")


def decision(batch: int, writer: str = "w", scope: str = "") -> Decision:
    won = ((0, 7), (1, 8))
    return Decision(writer, batch, NODES, won, {"t": TopicShare(11, 2)}, batch, scope=scope)


def staged_batch(*keys: tuple[int, int, int], batch: int = 5, topic: str = "t") -> StagedBatch:
    chunks = {ChunkKey(*key): Chunk(number, 1, 1) for number, key in enumerate(keys)}
    return StagedBatch(topic, "w", batch, 0, chunks)


def test_the_last_decision_of_a_writer_closes_its_batch_and_earlier_ones() -> None:
    table = Decisions()
    table.require_open(W, 5)
    with pytest.raises(NotDecidedError):
        table.of(W, 5)
    table.put(decision(5))
    for batch in (5, 4):
        with pytest.raises(DecidedError) as refused:
            table.require_open(W, batch)
        assert refused.value.decision.batch == 5
    table.require_open(W, 6)
    table.require_open(("v", ""), 5)
    table.require_open(("w", "t"), 5)
    assert table.of(W, 5) is table.last(W)
    with pytest.raises(DecidedError):
        table.of(W, 4)
    with pytest.raises(NotDecidedError):
        table.of(W, 6)
    table.put(decision(6))
    assert [each.batch for each in table] == [6]
    table.drop(W)
    table.require_open(W, 5)


def test_a_decision_is_the_same_for_the_same_nodes_and_attempts_alone() -> None:
    made = decision(5)
    assert made.is_for(NODES, made.attempts)
    assert not made.is_for(NODES[:1], made.attempts)
    assert not made.is_for(NODES, ((0, 7), (1, 9)))
    Decisions().finished(made)
    assert (made.done, made.attempts) == (True, ())
    assert made.is_for(NODES, ((0, 7), (1, 8)))


def test_what_is_decided_is_held_until_its_topic_goes() -> None:
    table = Decisions()
    table.put(decision(5))
    assert table.holds(staged_batch((0, 7, 0)))
    assert not table.holds(staged_batch((0, 7, 0), batch=6))
    assert not table.holds(staged_batch((0, 7, 0), topic="u"))
    table.put(decision(6, scope="t"))
    assert table.holds(staged_batch((0, 7, 0), batch=6))
    table.topic_deleted("t")
    assert not table.holds(staged_batch((0, 7, 0)))


def test_the_oldest_that_are_done_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECISIONS_MAX", 2)
    table = Decisions()
    made = [decision(1, writer) for writer in "abcd"]
    assert table.put(made[0]) == table.put(made[1]) == table.put(made[2]) == []
    table.finished(made[1])
    assert table.put(made[3]) == [("b", "")]
    assert [each.writer for each in table] == ["a", "c", "d"]


def test_shares_losers_and_attempts_of_what_is_staged() -> None:
    of = staged_batch((0, 7, 0), (0, 7, 1), (0, 6, 0), (1, 8, 0))
    other = staged_batch((0, 6, 0), topic="u")
    won = [(0, 7), (1, 8)]
    assert shares([of, other], won, {"t": 11, "u": 12}.__getitem__) == {"t": TopicShare(11, 3)}
    assert losers(of, won) == [(0, 6, 0)]
    assert attempts_in(of, won) == [Attempt(0, 7, 2), Attempt(1, 8, 1)]


def test_a_decision_in_a_file() -> None:
    assert decode_decision(encode_decision(decision(5))) == decision(5)
    assert decode_decision(b"\xc1") is None


def test_chunks_that_are_missing_are_counted() -> None:
    error = ChunksMissingError(3)
    assert (str(error), error.missing) == ("3 chunks are missing", 3)
