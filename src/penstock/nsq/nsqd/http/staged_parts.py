"""Staging and committing at a node: durable parts that nobody sees, then all of a batch at once.

The table of what is staged is ``broker.publish.parts``, the files are ``storage.files.part_files``,
and the memory of what was committed is the topic's (``broker.publish.writers``). What is staged are
batches as the log has them, but for places and time, which a commit writes into them on their way
into the log: a chunk at a time is in memory. What a message looks like is its dialect's matter
(``Staging``).

A batch for several topics or nodes is decided before it is committed
(``broker.publish.decisions``). What is decided stays until it is committed: it does not expire, is
not staged again, and its other attempts are dropped at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from penstock.broker.publish.commit import Commit, Stamp
from penstock.broker.publish.decisions import (
    ChunksMissingError,
    DecidedError,
    Decision,
    Decisions,
    Key,
    NodeShare,
    attempts_in,
    decode_decision,
    encode_decision,
    losers,
    shares,
)
from penstock.broker.publish.parts import (
    Attempt,
    Chunk,
    ChunkKey,
    PartNotFoundError,
    Parts,
    StagedBatch,
)
from penstock.broker.topic import Topic
from penstock.core.errors import ExitingError, PenstockError, StorageError
from penstock.core.malformed import MALFORMED
from penstock.core.units import MINUTE, SECOND, format_duration
from penstock.net.tasks import spawn
from penstock.node.dialect import Staging
from penstock.nsq.nsqd.nsq_staging import NsqStaging
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.storage.durability import Durability
from penstock.storage.files.decision_files import DecisionFiles
from penstock.storage.files.part_files import Found, PartFiles

if TYPE_CHECKING:
    from penstock.node.node import Node

logger = logging.getLogger("penstock.nsqd")

Stamps: TypeAlias = Mapping[int, Stamp]
"""The functions that write places into messages, by dialect."""
FOLDER: Final = "staged"
CHECK_NS: Final = SECOND
GRACE_NS: Final = 10 * MINUTE
"""The time after a start in which nothing expires, unless the limit is shorter: a clock that was
set ahead must not take what a writer has just staged."""


class PartHead(msgspec.Struct, array_like=True):
    """The head of a part's file; ``log`` is the id base of the topic's log, ``nbytes`` are those of
    the request.
    """

    topic: str
    log: int
    writer: str
    batch: int
    part: int
    attempt: int
    chunk: int
    wall_ns: int
    nbytes: int
    messages: int

    @property
    def key(self) -> ChunkKey:
        return ChunkKey(self.part, self.attempt, self.chunk)


class CommittedError(PenstockError):
    """The batch is not newer than the last that the writer has committed."""

    def __init__(self, last: int) -> None:
        super().__init__(f"batch {last} is committed")
        self.last = last


class StagedParts:
    """The staged parts of one node."""

    def __init__(self, node: Node, options: NsqdOptions) -> None:
        """Find what an earlier process has staged. Raises StorageError."""
        store = node.broker.store
        self.parts = Parts(options.max_staged_bytes)
        self._own = NsqStaging(node.registry, options.limits())
        self._dialects = node.dialects
        self._topics = node.broker.topics
        self._commits = node.commits
        self._clock = node.clock
        self._retention_ns = options.staged_retention
        folder = os.path.join(store.data_path, FOLDER)
        durably = options.durability is Durability.FSYNC
        self._files = PartFiles(store.disk, folder, durably=durably)
        self.decisions = Decisions()
        self._decision_files = DecisionFiles(store.disk, folder, durably=durably)
        self._committing = asyncio.Lock()
        self._deciding = asyncio.Lock()
        self._check_at = 0
        self._overdue: set[tuple[str, int]] = set()
        self._load()

    def _load(self) -> None:
        """Find what an earlier process has decided and staged. Raises StorageError."""
        kept = [each for data in self._decision_files.load() if (each := decode_decision(data))]
        for decision in sorted(kept, key=lambda each: each.wall_ns):
            for name, share in list(decision.topics.items()):
                topic = self._topics.get(name)
                # The topic was deleted, and perhaps made again: with another log.
                if topic is None or topic.log.id_base != share.log:
                    del decision.topics[name]
            self.decisions.put(decision)
        found = list(self._files.load())
        self._files.remove([each.number for each in found if not self._restore_part(each)])
        for decision in self.decisions:
            self._files.remove(self._lost_by(decision))

    def _restore_part(self, found: Found) -> bool:
        """Take in the part of a file; False if that cannot be committed any more."""
        try:
            head = msgspec.msgpack.decode(found.head, type=PartHead)
        except MALFORMED:
            return False
        topic = self._topics.get(head.topic)
        if topic is None or topic.log.id_base != head.log:
            return False
        last = topic.writers.last(head.writer)
        # Committed, or passed over: its file outlived a crash.
        if last is not None and head.batch <= last:
            return False
        age = max(0, self._clock.wall_ns() - head.wall_ns)
        age = min(age, self._retention_ns - min(self._retention_ns, GRACE_NS))
        chunk = self.parts.chunk(found.number, head.nbytes, head.messages)
        replaced = self.parts.restore(
            head.topic, head.writer, head.batch, head.key, chunk, self._clock.monotonic_ns() - age
        )
        if replaced is not None:
            self._files.remove([replaced.number])
        return True

    # --- staging -------------------------------------------------------------------------------

    @property
    def _stagings(self) -> list[Staging]:
        return [self._own, *(dialect.staging for dialect in self._dialects)]

    def staging(self, dialect: str) -> Staging | None:
        """The messages of that dialect; None when this node does not speak it."""
        return next((each for each in self._stagings if each.dialect == dialect), None)

    async def stage(
        self,
        staging: Staging,
        topic: Topic,
        writer: str,
        batch: int,
        key: ChunkKey,
        body: bytes,
        scope: str = "",
    ) -> int:
        """Write a chunk durably, for a decision of this scope; how many messages it holds.

        Raises StagingError for a wrong body, CommittedError, DecidedError, StageFullError,
        StorageError.
        """
        batches = staging.read(topic, body)
        count = sum(each.count for each in batches)
        self._check_open(topic, writer, batch, scope)
        head = PartHead(topic.name, topic.log.id_base, writer, batch, *key, self._clock.wall_ns(),
                        len(body), count)  # fmt: skip
        # Before the write, so that chunks written side by side stay within the limit.
        chunk = self.parts.reserve(len(body), count)
        try:
            await asyncio.to_thread(
                self._files.write, chunk.number, msgspec.msgpack.encode(head), batches
            )
        except StorageError:
            self.parts.release(chunk)
            raise
        try:
            if topic.exiting:
                raise ExitingError
            # Again: the batch may have been committed or decided while the file was written.
            self._check_open(topic, writer, batch, scope)
        except PenstockError:
            self.parts.release(chunk)
            self._remove([chunk.number])
            raise
        now = self._clock.monotonic_ns()
        replaced = self.parts.put(topic.name, writer, batch, key, chunk, now)
        if replaced is not None:
            self._remove([replaced.number])
        return count

    def _check_open(self, topic: Topic, writer: str, batch: int, scope: str) -> None:
        _check_newer(topic, writer, batch)
        self.decisions.require_open((writer, scope), batch)

    def figures(self) -> dict[str, int]:
        """The sums of what is staged, for /stats."""
        parts = self.parts
        return {"bytes": parts.nbytes, "bytes_max": parts.nbytes_max, "batches": len(parts)}

    def drop(self, batches: Iterable[StagedBatch]) -> None:
        """Forget staged batches and remove their files."""
        self._remove([number for each in batches for number in self.parts.drop(each)])

    def topic_deleted(self, name: str) -> None:
        """The topic is gone, with what was staged for it."""
        self.decisions.topic_deleted(name)
        self.drop(self.parts.of_topic(name))

    def _remove(self, numbers: Sequence[int]) -> None:
        if numbers:
            spawn(asyncio.to_thread(self._files.remove, numbers), "remove staged parts")

    def tick(self, now: int) -> None:
        """Drop what has expired, if it is time to look (monotonic ns)."""
        if now < self._check_at or not len(self.parts):
            return
        self._check_at = now + CHECK_NS
        old = self.parts.expired(now - self._retention_ns)
        expired = [each for each in old if not self.decisions.holds(each)]
        self._tell_overdue({(each.writer, each.batch) for each in old if each not in expired})
        for each in expired:
            logger.warning(
                "TOPIC(%s): dropping batch %d of writer %s, %d bytes that were staged "
                "and not committed for %s (--staged-retention)",
                each.topic,
                each.batch,
                each.writer,
                each.nbytes,
                format_duration(self._retention_ns),
            )
        self.drop(expired)

    def _tell_overdue(self, held: set[tuple[str, int]]) -> None:
        for writer, batch in sorted(held - self._overdue):
            logger.warning(
                "batch %d of writer %s was decided and not committed for %s: it is kept "
                "until its writer, started again, commits it, or POST /stage/abort "
                "drops it with decided=true",
                batch,
                writer,
                format_duration(self._retention_ns),
            )
        self._overdue = held

    # --- deciding ------------------------------------------------------------------------------

    async def decide(
        self,
        key: Key,
        batch: int,
        nodes: Sequence[NodeShare],
        attempts: Sequence[tuple[int, int]],
        chunks: int,
    ) -> None:
        """Write down durably that these attempts at a batch are committed, and drop the others.

        ``chunks`` is how many they have here, in all topics. The same again changes nothing. Raises
        DecidedError for another decision of the batch or a later batch's, ChunksMissingError,
        StorageError.
        """
        async with self._deciding:
            last = self.decisions.last(key)
            if last is not None and last.batch >= batch:
                if last.batch > batch or not last.is_for(nodes, attempts):
                    raise DecidedError(last)
                return
            staged = [each for each in self._in_scope(key, batch) if each.batch == batch]
            found = shares(staged, attempts, lambda name: self._topics[name].log.id_base)
            count = sum(share.chunks for share in found.values())
            if count != chunks:
                raise ChunksMissingError(chunks - count)
            writer, scope = key
            decision = Decision(
                writer,
                batch,
                tuple(nodes),
                tuple(attempts),
                found,
                self._clock.wall_ns(),
                scope=scope,
            )
            content = encode_decision(decision)
            # Durable before it counts: after a crash, this node must not decide otherwise.
            await asyncio.to_thread(self._decision_files.write, _file_name(key), content)
            forgotten = self.decisions.put(decision)
            self._remove(self._lost_by(decision))
            for other in forgotten:
                await asyncio.to_thread(self._decision_files.remove, _file_name(other))

    def _in_scope(self, key: Key, batch: int) -> list[StagedBatch]:
        """A writer's batches up to this one, in the topics that a decision is about."""
        writer, scope = key
        return [each for each in self.parts.up_to(writer, batch) if scope in ("", each.topic)]

    def _lost_by(self, decision: Decision) -> list[int]:
        """Forget what a decision leaves out, of its batch and earlier ones; numbers of files."""
        numbers = []
        for each in self._in_scope(decision.key, decision.batch):
            if each.batch == decision.batch:
                if each.topic not in decision.topics and self.decisions.holds(each):
                    continue  # by a decision about this topic alone
                numbers += self.parts.drop_chunks(each, losers(each, decision.attempts))
            if each.batch < decision.batch or not each.chunks:
                numbers += self.parts.drop(each)
        return numbers

    async def revoke(self, key: Key, batch: int) -> None:
        """Drop what is staged of a batch, and the decision that it is committed.

        Raises StorageError.
        """
        async with self._deciding:
            last = self.decisions.last(key)
            if last is not None and last.batch == batch:
                # The file first: while it is there, the decision would come back with a restart.
                await asyncio.to_thread(self._decision_files.remove, _file_name(key))
                self.decisions.drop(key)
            self.drop([each for each in self._in_scope(key, batch) if each.batch == batch])

    # --- committing ----------------------------------------------------------------------------

    def to_commit(self, decision: Decision) -> list[Topic]:
        """The topics in which the decided attempts are not committed yet."""
        found = ((self._topics.get(name), share) for name, share in decision.topics.items())
        return [
            topic
            for topic, share in found
            if topic is not None
            and topic.log.id_base == share.log
            and not _is_committed(topic, decision.writer, decision.batch)
        ]

    async def commit_decided(self, topic: Topic, decision: Decision) -> int:
        """Append what was decided for a topic at once, durably; how many messages that were.

        Raises CommittedError if it was done before, ChunksMissingError, PartNotFoundError,
        StorageError.
        """
        writer, batch = decision.writer, decision.batch
        staged = self.parts.of_topic_batch(topic.name, writer, batch)
        attempts = [] if staged is None else attempts_in(staged, decision.attempts)
        missing = decision.topics[topic.name].chunks - sum(each.chunks for each in attempts)
        if missing and not _is_committed(topic, writer, batch):
            raise ChunksMissingError(missing)
        return await self.commit(topic, writer, batch, attempts)

    async def commit(
        self, topic: Topic, writer: str, batch: int, attempts: Sequence[Attempt]
    ) -> int:
        """Append the chunks of these attempts at once, durably; how many messages that were.

        Raises CommittedError if it was done before, PartNotFoundError, StorageError.
        """
        async with self._committing:
            if topic.exiting:
                raise ExitingError
            try:
                _check_newer(topic, writer, batch)
            except CommittedError:
                self._drop_committed(topic, writer, batch)
                raise
            chunks = self.parts.chunks(topic.name, writer, batch, attempts)
            if chunks:
                await self._append(topic, writer, batch, chunks)
            self._drop_committed(topic, writer, batch)
            return sum(chunk.messages for _, chunk in chunks)

    def _drop_committed(self, topic: Topic, writer: str, batch: int) -> None:
        self.drop(self.parts.committed(topic.name, writer, batch))

    async def _append(
        self, topic: Topic, writer: str, batch: int, chunks: Sequence[tuple[ChunkKey, Chunk]]
    ) -> None:
        commits = self._commits
        appended: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
        commits.occupy(topic)
        try:
            commit = topic.begin_commit(writer, batch, sum(chunk.nbytes for _, chunk in chunks))
            try:
                nbytes = await asyncio.to_thread(self._fill, commit, chunks, self._stamps(topic))
            except PartNotFoundError as missing:
                self.parts.lose(topic.name, writer, batch, missing.key)
                raise
            commits.append(topic, partial(topic.end_commit, commit, nbytes), appended.set_result)
        finally:
            commits.vacate(topic)
        error = await appended
        if error is not None:
            raise error

    def _stamps(self, topic: Topic) -> Stamps:
        return {int(each.frames): each.stamp(topic) for each in self._stagings}

    def _fill(
        self, commit: Commit, chunks: Sequence[tuple[ChunkKey, Chunk]], stamps: Stamps
    ) -> int:
        """Read the chunks into a commit, in a thread; the bytes of all bodies.

        Raises PartNotFoundError and StorageError, and cancels the commit.
        """
        buffers = cycle((bytearray(), bytearray()))  # a commit holds a batch of the chunk before
        try:
            nbytes = sum(self._add(commit, *each, next(buffers), stamps) for each in chunks)
            commit.finish()
        except PenstockError:
            commit.cancel()
            raise
        return nbytes

    def _add(
        self, commit: Commit, key: ChunkKey, chunk: Chunk, buffer: bytearray, stamps: Stamps
    ) -> int:
        batches = self._files.read(chunk.number, chunk.messages, buffer)
        # Restarted without a dialect, a node can do nothing with what was staged in it.
        if batches is None or any(batch.dialect not in stamps for batch in batches):
            raise PartNotFoundError(key)
        return sum(commit.add(batch, stamps[batch.dialect]) for batch in batches)


def _file_name(key: Key) -> str:
    return "\n".join(key)  # no writer's name has that


def _is_committed(topic: Topic, writer: str, batch: int) -> bool:
    last = topic.writers.last(writer)
    return last is not None and batch <= last


def _check_newer(topic: Topic, writer: str, batch: int) -> None:
    """Raise CommittedError unless the batch is newer than the writer's last, and StorageError if
    that one is in a log whose sync has failed: nobody can say whether it is there.
    """
    last = topic.writers.last(writer)
    if last is not None and batch <= last:
        raise CommittedError(last)
    if any(record.name == writer and batch <= record.batch for record, _ in topic.writers.pending):
        raise StorageError(f"{topic.name}: the commit of batch {batch} is not synced")
