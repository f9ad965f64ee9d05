"""Staged parts: messages that writers have handed in and not committed, known by where they are.

A writer stages the parts of a batch, each in one or more chunks, perhaps by several attempts; then
it commits the batch and names the attempts that count. Here is the table of the chunks; their bytes
are in files, which the shell around it writes and removes by the numbers that it gets from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from penstock.core.errors import PenstockError

CHUNK_BYTES_MIN: Final = 16 * 1024
"""The least that a chunk counts, so that the limit on bytes is one on chunks as well."""


class ChunkKey(NamedTuple):
    """The place of a chunk: chunks of an attempt at a part are numbered from 0."""

    part: int
    attempt: int
    chunk: int


class Chunk(NamedTuple):
    """A chunk in the file of this number."""

    number: int
    nbytes: int
    messages: int


class Attempt(NamedTuple):
    """An attempt at a part that counts, and how many chunks it has."""

    part: int
    attempt: int
    chunks: int


class StageFullError(PenstockError):
    """A part for which there is no room; ``limit`` is in bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"staged parts have {limit} bytes, the most that they may")
        self.limit = limit


class PartNotFoundError(PenstockError):
    """A chunk of an attempt is not there."""

    def __init__(self, key: ChunkKey) -> None:
        super().__init__(f"part {key.part} has no chunk {key.chunk} of attempt {key.attempt}")
        self.key = key


class StagedBatch(Struct):
    """The staged chunks of one batch of a writer for a topic; the time is monotonic ns."""

    topic: str
    writer: str
    batch: int
    staged_ns: int
    chunks: dict[ChunkKey, Chunk] = {}

    @property
    def nbytes(self) -> int:
        return sum(chunk.nbytes for chunk in self.chunks.values())


class Parts:
    """The staged batches of one node."""

    def __init__(self, nbytes_max: int) -> None:
        self.nbytes = 0
        """Bytes of all chunks, and of those that are being written."""
        self.nbytes_max = nbytes_max
        self._batches: dict[tuple[str, str, int], StagedBatch] = {}
        self._next_number = 1

    def __len__(self) -> int:
        """The number of batches."""
        return len(self._batches)

    def __iter__(self) -> Iterator[StagedBatch]:
        return iter(self._batches.values())

    # --- staging -------------------------------------------------------------------------------

    def reserve(self, nbytes: int, messages: int) -> Chunk:
        """Reserve room for a chunk of this size, and a number. Raises StageFullError."""
        chunk = self.chunk(self._next_number, nbytes, messages)
        if self.nbytes + chunk.nbytes > self.nbytes_max:
            raise StageFullError(self.nbytes_max)
        self.nbytes += chunk.nbytes
        self._next_number += 1
        return chunk

    @staticmethod
    def chunk(number: int, nbytes: int, messages: int) -> Chunk:
        """A chunk as it counts."""
        return Chunk(number, max(nbytes, CHUNK_BYTES_MIN), messages)

    def release(self, chunk: Chunk) -> None:
        """Give back the room of a chunk that could not be written."""
        self.nbytes -= chunk.nbytes

    def put(
        self, topic: str, writer: str, batch: int, key: ChunkKey, chunk: Chunk, now: int
    ) -> Chunk | None:
        """Take a chunk whose room is reserved; the one that it replaces, if there is one."""
        of = self._batches.get((topic, writer, batch))
        if of is None:
            of = self._batches[topic, writer, batch] = StagedBatch(topic, writer, batch, now)
        # Each chunk renews it: a batch expires by its last chunk, not its first.
        of.staged_ns = now
        replaced = of.chunks.get(key)
        of.chunks[key] = chunk
        if replaced is not None:
            self.nbytes -= replaced.nbytes
        return replaced

    def restore(
        self, topic: str, writer: str, batch: int, key: ChunkKey, chunk: Chunk, staged_ns: int
    ) -> Chunk | None:
        """Take a chunk that an earlier process has written, in the order of the numbers."""
        self.nbytes += chunk.nbytes
        self._next_number = max(self._next_number, chunk.number + 1)
        return self.put(topic, writer, batch, key, chunk, staged_ns)

    # --- looking and dropping ------------------------------------------------------------------

    def chunks(
        self, topic: str, writer: str, batch: int, attempts: Iterable[Attempt]
    ) -> list[tuple[ChunkKey, Chunk]]:
        """The chunks of these attempts, by part and chunk. Raises PartNotFoundError."""
        of = self._batches.get((topic, writer, batch))
        known = of.chunks if of is not None else {}
        found = []
        for attempt in sorted(attempts):
            for chunk in range(attempt.chunks):
                key = ChunkKey(attempt.part, attempt.attempt, chunk)
                if key not in known:
                    raise PartNotFoundError(key)
                found.append((key, known[key]))
        return found

    def drop(self, batch: StagedBatch) -> list[int]:
        """Forget a batch; the numbers of its files."""
        del self._batches[batch.topic, batch.writer, batch.batch]
        self.nbytes -= batch.nbytes
        return [chunk.number for chunk in batch.chunks.values()]

    def drop_chunks(self, batch: StagedBatch, keys: Iterable[ChunkKey]) -> list[int]:
        """Forget some chunks of a batch; the numbers of their files."""
        dropped = [batch.chunks.pop(key) for key in keys]
        self.nbytes -= sum(chunk.nbytes for chunk in dropped)
        return [chunk.number for chunk in dropped]

    def lose(self, topic: str, writer: str, batch: int, key: ChunkKey) -> None:
        """Forget a chunk whose file cannot be read."""
        of = self._batches.get((topic, writer, batch))
        chunk = of.chunks.pop(key, None) if of is not None else None
        if chunk is not None:
            self.nbytes -= chunk.nbytes

    def committed(self, topic: str, writer: str, batch: int) -> list[StagedBatch]:
        """The batches that a commit has made needless: this one and earlier ones of the writer."""
        return [
            each
            for each in self
            if (each.topic, each.writer) == (topic, writer) and each.batch <= batch
        ]

    def of_topic_batch(self, topic: str, writer: str, batch: int) -> StagedBatch | None:
        """A writer's batch for a topic; None if nothing of it is staged."""
        return self._batches.get((topic, writer, batch))

    def up_to(self, writer: str, batch: int) -> list[StagedBatch]:
        """A writer's batches up to this one, in all topics."""
        return [each for each in self if each.writer == writer and each.batch <= batch]

    def of_topic(self, topic: str) -> list[StagedBatch]:
        """All batches for a topic."""
        return [each for each in self if each.topic == topic]

    def expired(self, before_ns: int) -> list[StagedBatch]:
        """The batches of which nothing was staged since then."""
        return [each for each in self if each.staged_ns < before_ns]
