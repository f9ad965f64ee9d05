"""Messages by key: an index beside each topic's log, made from the log and never ahead of it.

What is stored is indexed some hundred messages at once, while the log still has them in memory.
What was missed, as by a start or a crash, is read again by a task that adds its keys in small
slices, with pauses that leave the loop to others. A search first has the rest of the topic it
searches indexed, so that it finds what was stored right before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from penstock.core.clock import Clock
from penstock.core.counted import counted
from penstock.core.errors import StorageError
from penstock.core.units import MILLISECOND, SECOND
from penstock.net.tasks import spawn
from penstock.rocketmq.broker.store import message_keys
from penstock.storage.batch import Batch, Dialect
from penstock.storage.files.disk import Disk
from penstock.storage.log import Log
from penstock.storage.queues.hash_index import DamagedIndexError, HashIndex

SLICE_NS: Final = 2 * MILLISECOND
"""The longest time that the loop is blocked, one batch aside."""
PAUSE_S: Final = 0.01
_SHARE: Final = 3  # of the time a slice took, to others at least
# A full disk stays full for a while, and each try reads the log again.
_RETRY_S: Final = 5.0
_MESSAGES: Final = 1000  # indexed at once, or one batch
_AT_HAND_MAX: Final = 10_000  # messages; what is later is for the task
CATCH_UP_S: Final = 2.0
"""A search waits this time for its topic to be indexed, and then searches what is."""
SEARCH_S: Final = 3.0
PENDING_MAX: Final = 256 * 1024
"""Rows in memory of all topics; then those of all are written."""
CANDIDATES_MAX: Final = 10_000
"""Messages that a search may read, where keys have one hash."""
_TIME_MAX: Final = (1 << 63) - 1

logger = logging.getLogger("penstock.mqbroker")


class Found(NamedTuple):
    """The result of a search. ``frames`` are stored messages, the oldest first; ``last_offset`` is
    the newest log offset that is indexed, -1 when nothing is, stored at ``last_ms``.
    """

    frames: list[bytes]
    last_offset: int
    last_ms: int


class KeyIndex:
    """The indexes of all topics. ``log_of`` gives a topic's log, None for one that has none or is
    gone.
    """

    def __init__(self, disk: Disk, log_of: Callable[[str], Log | None], clock: Clock) -> None:
        self._disk = disk
        self._log_of = log_of
        self._clock = clock
        self._indexes: dict[str, HashIndex] = {}
        self._behind: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unwritten: dict[str, HashIndex] = {}
        self._added = 0  # rows, since there was nothing unwritten
        self._is_failing = False

    # --- what the store tells ------------------------------------------------------------------

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        """Batches were stored; listens to ``MessageStore.on_append``.

        They are indexed here and now when there are enough to make that cheap, and few enough to be
        in memory still: to read them again later costs several times as much.
        """
        index = self._indexes.get(topic)
        if index is None or self._is_failing:
            self.note(topic)
            return
        late = batches[-1].next_offset - index.covered
        if late < _MESSAGES:
            return
        log = self._log_of(topic)
        if log is None:
            self.note(topic)
            return
        try:
            while _MESSAGES <= log.next_offset - index.covered <= _AT_HAND_MAX:
                self._take(topic, index, log)
        except StorageError:  # the task meets it too, and tells
            late = _AT_HAND_MAX + 1
        if late > _AT_HAND_MAX:
            self.note(topic)
        if self._added > PENDING_MAX:
            self._wake.set()

    def note(self, topic: str) -> None:
        """A topic may hold what is not indexed yet."""
        self._behind[topic] = None
        self._wake.set()

    def deleted(self, topic: str) -> None:
        """A topic is gone with its log; listens to ``MessageStore.deleted``."""
        self._behind.pop(topic, None)
        self._indexes.pop(topic, None)
        # Else the rows of the old log would be written to the folder of a new one.
        self._unwritten.pop(topic, None)

    # --- the task ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to index the topics that were noted, and will be."""
        self._task = spawn(self._run(), "key index")

    async def close(self) -> None:
        """Write what is in memory. A failure is logged: the next start makes it again."""
        if self._task is not None:
            self._task.cancel()
        try:
            while self._added:
                self._write_one()
        except StorageError as error:
            logger.warning("failed to write the key index - %s", error)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            pause_s = self._work()
            if not self._behind and self._added <= PENDING_MAX:
                self._wake.clear()
            await asyncio.sleep(pause_s)

    def _work(self) -> float:
        """Index for one slice of time; the seconds to pause then."""
        began = self._clock.monotonic_ns()
        until = began + SLICE_NS
        try:
            while self._behind and self._clock.monotonic_ns() < until:
                topic = next(iter(self._behind))
                del self._behind[topic]
                self._advance(topic, until)
            while self._added > PENDING_MAX and self._clock.monotonic_ns() < until + SLICE_NS:
                self._write_one()
        except Exception as error:  # without this task no key would ever be found
            if not self._is_failing:
                logger.warning(
                    "failed to index the keys of messages - %s; trying again",
                    error,
                    exc_info=not isinstance(error, StorageError),
                )
            self._is_failing = True
            return _RETRY_S
        self._is_failing = False
        return max(PAUSE_S, _SHARE * (self._clock.monotonic_ns() - began) / SECOND)

    def _write_one(self) -> None:
        """Write the rows of one topic, if there are any left."""
        topic = next(iter(self._unwritten), None)
        if topic is None:
            self._added = 0
            return
        index = self._unwritten.pop(topic)
        try:
            log = self._log_of(topic)
            if log is not None:
                index.trim(log.start_offset)
                index.flush()
        except StorageError:
            self.note(topic)  # its rows are to be had again
            raise

    def _advance(self, topic: str, until_ns: int) -> None:
        """Index what a topic's log holds beyond its index, or some of it; the rest is noted.

        Raises StorageError.
        """
        log = self._log_of(topic)
        if log is None:
            self.deleted(topic)
            return
        is_done = False
        try:
            index = self._index(topic, log)
            index.trim(log.start_offset)
            while index.covered < log.next_offset:
                self._take(topic, index, log)
                if self._clock.monotonic_ns() >= until_ns:
                    break
            is_done = index.covered >= log.next_offset
        finally:
            if not is_done:
                self.note(topic)

    def _take(self, topic: str, index: HashIndex, log: Log) -> None:
        """Index the next batches of a log."""
        stored, place = log.batches_at(index.covered)
        batches = _some(stored, place)
        first = index.covered
        if not batches:  # the rest is damaged
            index.add((), (), first, log.next_offset, index.last_ns)
            return
        self._add(topic, index, batches)

    def _add(self, topic: str, index: HashIndex, batches: Sequence[Batch]) -> None:
        first = index.covered
        hashes, numbers = message_keys.rows(batches, first)
        index.add(hashes, numbers, first, batches[-1].next_offset, batches[-1].timestamp_ns)
        self._added += len(hashes)
        if index.pending:
            self._unwritten[topic] = index

    def _index(self, topic: str, log: Log) -> HashIndex:
        index = self._indexes.get(topic)
        if index is None or index.directory != log.directory:
            index = self._indexes[topic] = HashIndex.open(self._disk, log.directory, log)
        return index

    # --- searching -----------------------------------------------------------------------------

    async def find(
        self, topic: str, key: str, begin_ms: int, end_ms: int, count: int, nbytes: int
    ) -> Found:
        """The newest messages with a key, stored between two times, both included: ``count`` at
        most, and as many as fit ``nbytes``.

        After ``SEARCH_S`` it gives what it has found so far. Raises StorageError.
        """
        log = self._log_of(topic)
        if log is None or count <= 0:
            return Found([], -1, 0)
        wanted = key.encode("utf-8", "replace")
        for is_last in (False, False, True):
            index = await self._caught_up(topic, log)
            deadline = self._clock.monotonic_ns() + int(SEARCH_S * SECOND)
            try:
                frames = await self._search(
                    index, log, wanted, begin_ms, end_ms, deadline, count, nbytes
                )
                break
            except DamagedIndexError as error:
                logger.warning("%s; making it again from there", error)
                index.rewind(error.offset)
                self.note(topic)
                if is_last:  # this disk keeps nothing as it was written
                    raise
        frames.reverse()
        return Found(
            frames, index.covered - 1 if index.last_ns else -1, index.last_ns // MILLISECOND
        )

    async def _caught_up(self, topic: str, log: Log) -> HashIndex:
        """A topic's index when it has all that is stored now, or most of it after a while."""
        deadline = self._clock.monotonic_ns() + int(CATCH_UP_S * SECOND)
        end = log.next_offset
        index = self._index(topic, log)
        while index.covered < end:
            now = self._clock.monotonic_ns()
            if self._log_of(topic) is not log:
                break
            if now > deadline:
                logger.warning(
                    "the key index of %s lacks its newest %s",
                    topic,
                    counted(log.next_offset - index.covered, "message"),
                )
                break
            self._advance(topic, now + SLICE_NS)
            await asyncio.sleep(0)
        return index

    async def _search(
        self,
        index: HashIndex,
        log: Log,
        key: bytes,
        begin_ms: int,
        end_ms: int,
        deadline_ns: int,
        count: int,
        nbytes: int,
    ) -> list[bytes]:
        times = range(_clamp(begin_ms * MILLISECOND), _clamp((end_ms + 1) * MILLISECOND))
        low = max(log.start_offset, log.offset_at(times.start))
        # When the system's time was set back, older messages may have a later time.
        is_newest_meant = index.last_ns < times.stop
        high = log.next_offset if is_newest_meant else log.offset_at(times.stop)
        found: list[bytes] = []
        looked_at = 0
        paused_ns = self._clock.monotonic_ns()
        for offset in _offsets(index, message_keys.hash_of(key), low, high):
            if offset is not None:
                # Counted even in vain: messages of one hash could otherwise be read without an end.
                looked_at += 1
                frame = _frame(log, offset, times)
                if frame is not None and key in message_keys.keys(frame):
                    nbytes -= len(frame)
                    if found and nbytes < 0:
                        break
                    found.append(frame)
            if len(found) == count or looked_at == CANDIDATES_MAX:
                break
            now = self._clock.monotonic_ns()
            if now > deadline_ns:
                logger.warning("a search for the key %.100r in %s was given up", key, log.directory)
                break
            if now - paused_ns > SLICE_NS:
                await asyncio.sleep(0)
                paused_ns = self._clock.monotonic_ns()
        return found


def _some(stored: Sequence[Batch], place: int) -> list[Batch]:
    """The next batches, with some ``_MESSAGES`` messages."""
    batches, count = [], 0
    for batch in stored[place : place + _MESSAGES]:  # each has one at least
        batches.append(batch)
        count += batch.count
        if count >= _MESSAGES:
            break
    return batches


def _offsets(index: HashIndex, wanted: int, low: int, high: int) -> Iterator[int | None]:
    """Candidates, the newest first; None between chunks. Several keys of a message may share a
    hash, but it is given once.
    """
    last = -1
    for chunk in index.candidates(wanted, low, high):
        yield None
        for offset in chunk:
            if offset != last:
                yield offset
            last = offset


def _frame(log: Log, offset: int, times: range) -> bytes | None:
    """The stored message at an offset; None when the log no longer has it, or it is of another
    time (ns).
    """
    if offset < log.start_offset:
        return None
    batch = log.batch_at(offset)
    if batch is None or batch.dialect != Dialect.ROCKETMQ or batch.timestamp_ns not in times:
        return None
    return bytes(batch.slice(offset, offset + 1))


def _clamp(time_ns: int) -> int:
    return max(0, min(time_ns, _TIME_MAX))
