"""Decisions: which attempts at a writer's batch are committed, written down before any of them is.

A batch for several topics or nodes is not committed in one write. Between two of the writes its
writer may die, and what it computes again need not be the same rows. So it has each of its nodes
keep the decision first, and after a crash finishes what was decided. Here is the table of one node:
the last decision of each writer, which outlives its commit, as the batch may come again.

A decision is about all topics of a batch, or about one alone: its ``scope``, else empty. A writer
may write several topics under one number, one after the other, and decides on each for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from penstock.broker.publish.parts import Attempt, ChunkKey, StagedBatch
from penstock.core.errors import PenstockError
from penstock.core.malformed import MALFORMED

DECISIONS_MAX: Final = 10_000
"""The most writers whose last decision is kept; then the oldest that is done is forgotten."""


Key: TypeAlias = tuple[str, str]
"""A writer, and the topic that its decisions are about; empty: about all."""


class NodeShare(msgspec.Struct, array_like=True, frozen=True):
    """A node of a decision, as its writer calls it, and the chunks to commit there."""

    address: str
    chunks: int


class TopicShare(msgspec.Struct, array_like=True):
    """The chunks to commit to a topic here; ``log`` is the id base of its log."""

    log: int
    chunks: int


class Decision(msgspec.Struct):
    """A decision as it is kept; the time is wall ns. ``attempts`` are parts and attempts.

    ``done`` says that this node has committed all of it; then the attempts are of no use any more.
    """

    writer: str
    batch: int
    nodes: tuple[NodeShare, ...]
    attempts: tuple[tuple[int, int], ...]
    topics: dict[str, TopicShare]
    wall_ns: int
    done: bool = False
    scope: str = ""

    @property
    def key(self) -> Key:
        return self.writer, self.scope

    def is_for(self, nodes: Sequence[NodeShare], attempts: Sequence[tuple[int, int]]) -> bool:
        """True if these nodes and attempts are what was decided."""
        return self.nodes == tuple(nodes) and (self.done or self.attempts == tuple(attempts))


class DecidedError(PenstockError):
    """The batch, or a later one of its writer, is decided."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(f"batch {decision.batch} of writer {decision.writer} is decided")
        self.decision = decision


class NotDecidedError(PenstockError):
    """There is no decision of the batch."""


class ChunksMissingError(PenstockError):
    """Some chunks of the attempts that count are not there, or more are than there should be."""

    def __init__(self, missing: int) -> None:
        super().__init__(f"{missing} chunks are missing")
        self.missing = missing


def encode_decision(decision: Decision) -> bytes:
    """The content of a decision's file."""
    return msgspec.msgpack.encode(decision)


def decode_decision(data: bytes) -> Decision | None:
    """The decision in a file; None if the content is not one."""
    try:
        return msgspec.msgpack.decode(data, type=Decision)
    except MALFORMED:
        return None


class Decisions:
    """The last decision of each writer at one node, the latest at the end."""

    def __init__(self) -> None:
        self._last: dict[Key, Decision] = {}

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._last.values())

    def last(self, key: Key) -> Decision | None:
        """The writer's last decision."""
        return self._last.get(key)

    def of(self, key: Key, batch: int) -> Decision:
        """The decision of a batch. Raises NotDecidedError, or DecidedError for a later one."""
        last = self._last.get(key)
        if last is None or last.batch < batch:
            raise NotDecidedError(f"batch {batch} of writer {key[0]} is not decided")
        if last.batch > batch:
            raise DecidedError(last)
        return last

    def require_open(self, key: Key, batch: int) -> None:
        """Raise DecidedError unless the batch may still be staged."""
        last = self._last.get(key)
        if last is not None and batch <= last.batch:
            raise DecidedError(last)

    def holds(self, each: StagedBatch) -> bool:
        """True for what must be kept until it is committed: it is decided."""
        for scope in ("", each.topic):
            last = self._last.get((each.writer, scope))
            if last is not None and last.batch == each.batch and each.topic in last.topics:
                return True
        return False

    def put(self, decision: Decision) -> list[Key]:
        """Take a decision in place of the writer's last; those that are forgotten for it."""
        self.drop(decision.key)
        self._last[decision.key] = decision
        over = len(self._last) - DECISIONS_MAX
        # An open decision may be all that says which attempts count: the table rather grows.
        forgotten = [each.key for each in self if each.done][: max(0, over)]
        for key in forgotten:
            self.drop(key)
        return forgotten

    def drop(self, key: Key) -> None:
        """Forget a writer's decision."""
        self._last.pop(key, None)

    def topic_deleted(self, topic: str) -> None:
        """Nothing is left to commit to this topic: what was decided for it went with it."""
        for each in self:
            each.topics.pop(topic, None)

    def finished(self, decision: Decision) -> None:
        """All of it is committed here."""
        decision.done = True
        decision.attempts = ()


def shares(
    staged: Sequence[StagedBatch],
    attempts: Sequence[tuple[int, int]],
    log_of: Callable[[str], int],
) -> dict[str, TopicShare]:
    """The chunks of these attempts in each topic that has some."""
    wanted = frozenset(attempts)
    counts = {each.topic: sum(key[:2] in wanted for key in each.chunks) for each in staged}
    return {topic: TopicShare(log_of(topic), count) for topic, count in counts.items() if count}


def losers(each: StagedBatch, attempts: Sequence[tuple[int, int]]) -> list[ChunkKey]:
    """The chunks of attempts that have not won."""
    wanted = frozenset(attempts)
    return [key for key in each.chunks if key[:2] not in wanted]


def attempts_in(each: StagedBatch, attempts: Sequence[tuple[int, int]]) -> list[Attempt]:
    """The decided attempts as a topic's commit takes them, with the chunks that are there."""
    wanted = frozenset(attempts)
    counts: dict[tuple[int, int], int] = {}
    for key in each.chunks:
        if key[:2] in wanted:
            counts[key[:2]] = counts.get(key[:2], 0) + 1
    return [Attempt(part, attempt, count) for (part, attempt), count in counts.items()]
