"""Staging and committing at a node: durable parts that nobody sees, then all of a batch at once.

The table of what is staged is ``broker.parts``, the files are ``storage.part_files``, and the
memory of what was committed is the topic's (``broker.writers``). What is staged are batches as the
log has them, but for places and time, which a commit writes into them on their way into the log: a
chunk at a time is in memory. What a message looks like is its dialect's matter (``Staging``).
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
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.storage.durability import Durability
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
        self._files = PartFiles(store.disk, os.path.join(store.data_path, FOLDER),
                                durably=options.durability is Durability.FSYNC)  # fmt: skip
        self._committing = asyncio.Lock()
        self._check_at = 0
        self._load()

    def _load(self) -> None:
        """Find what an earlier process has staged. Raises StorageError."""
        found = list(self._files.load())
        self._files.remove([each.number for each in found if not self._restored(each)])

    def _restored(self, found: Found) -> bool:
        """True if the file is a part that may still be committed."""
        try:
            head = msgspec.msgpack.decode(found.head, type=PartHead)
        except MALFORMED:
            return False
        topic = self._topics.get(head.topic)
        if topic is None or topic.log.id_base != head.log:
            return False
        last = topic.writers.last(head.writer)
        if last is not None and head.batch <= last:
            return False
        age = max(0, self._clock.wall_ns() - head.wall_ns)
        age = min(age, self._retention_ns - min(self._retention_ns, GRACE_NS))
        chunk = self.parts.chunk(found.number, head.nbytes, head.messages)
        replaced = self.parts.restore(head.topic, head.writer, head.batch, head.key, chunk,
                                      self._clock.monotonic_ns() - age)  # fmt: skip
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
    ) -> int:
        """Write a chunk durably; how many messages it holds.

        Raises StagingError for a wrong body, CommittedError, StageFullError, StorageError.
        """
        batches = staging.read(topic, body)
        count = sum(each.count for each in batches)
        _check_newer(topic, writer, batch)
        head = PartHead(topic.name, topic.log.id_base, writer, batch, *key, self._clock.wall_ns(),
                        len(body), count)  # fmt: skip
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
            _check_newer(topic, writer, batch)
        except PenstockError:
            self.parts.release(chunk)
            self._remove([chunk.number])
            raise
        now = self._clock.monotonic_ns()
        replaced = self.parts.put(topic.name, writer, batch, key, chunk, now)
        if replaced is not None:
            self._remove([replaced.number])
        return count

    def figures(self) -> dict[str, int]:
        """The sums of what is staged, for /stats."""
        parts = self.parts
        return {"bytes": parts.nbytes, "bytes_max": parts.nbytes_max, "batches": len(parts)}

    def drop(self, batches: Iterable[StagedBatch]) -> None:
        """Forget staged batches and remove their files."""
        self._remove([number for each in batches for number in self.parts.drop(each)])

    def topic_deleted(self, name: str) -> None:
        """The topic is gone, with what was staged for it."""
        self.drop(self.parts.of_topic(name))

    def _remove(self, numbers: Sequence[int]) -> None:
        if numbers:
            spawn(asyncio.to_thread(self._files.remove, numbers), "remove staged parts")

    def tick(self, now: int) -> None:
        """Drop what has expired, if it is time to look (monotonic ns)."""
        if now < self._check_at or not len(self.parts):
            return
        self._check_at = now + CHECK_NS
        expired = self.parts.expired(now - self._retention_ns)
        for each in expired:
            logger.warning("TOPIC(%s): dropping batch %d of writer %s, %d bytes that were staged "
                           "and not committed for %s (--staged-retention)",
                           each.topic, each.batch, each.writer, each.nbytes,
                           format_duration(self._retention_ns))  # fmt: skip
        self.drop(expired)

    # --- committing ----------------------------------------------------------------------------

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


def _check_newer(topic: Topic, writer: str, batch: int) -> None:
    """Raise CommittedError unless the batch is newer than the writer's last, and StorageError if
    that one is in a log whose sync has failed: nobody can say whether it is there.
    """
    last = topic.writers.last(writer)
    if last is not None and batch <= last:
        raise CommittedError(last)
    if any(record.name == writer and batch <= record.batch for record, _ in topic.writers.pending):
        raise StorageError(f"{topic.name}: the commit of batch {batch} is not synced")
