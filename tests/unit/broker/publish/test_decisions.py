"""The table of decisions."""

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
from penstock.broker.publish.parts import Attempt, Chunk, ChunkKey, StagedBatch

NODES = (NodeShare("a:1", 2), NodeShare("b:1", 0))


W = ("w", "")


def decision(batch: int, writer: str = "w", scope: str = "") -> Decision:
    won = ((0, 7), (1, 8))
    return Decision(writer, batch, NODES, won, {"t": TopicShare(11, 2)}, batch, scope=scope)


def staged(*keys: tuple[int, int, int], batch: int = 5, topic: str = "t") -> StagedBatch:
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
    assert table.holds(staged((0, 7, 0)))
    assert not table.holds(staged((0, 7, 0), batch=6))
    assert not table.holds(staged((0, 7, 0), topic="u"))
    table.put(decision(6, scope="t"))
    assert table.holds(staged((0, 7, 0), batch=6))
    table.topic_deleted("t")
    assert not table.holds(staged((0, 7, 0)))


def test_the_oldest_that_are_done_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECISIONS_MAX", 2)
    table = Decisions()
    made = [decision(1, writer) for writer in "abcd"]
    assert table.put(made[0]) == table.put(made[1]) == table.put(made[2]) == []
    table.finished(made[1])
    assert table.put(made[3]) == [("b", "")]
    assert [each.writer for each in table] == ["a", "c", "d"]


def test_shares_losers_and_attempts_of_what_is_staged() -> None:
    of = staged((0, 7, 0), (0, 7, 1), (0, 6, 0), (1, 8, 0))
    other = staged((0, 6, 0), topic="u")
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
