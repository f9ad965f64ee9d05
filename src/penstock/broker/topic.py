"""A topic: what is published to it becomes batches of one log, which its channels read.

Publishes are staged, and ``commit`` appends all that were staged since the last time with one
write: that is the group commit which makes single publishes cheap. Each staged publish is told the
outcome.

``head`` is how far the log has been given to the channels. It stands still while the topic is
paused or has no channel: the first channel then gets the whole backlog, later ones what comes
after them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, cast

from penstock.broker.channels.alarms import Alarms
from penstock.broker.channels.channel import Channel, ChannelOptions
from penstock.broker.directed import pass_by_others
from penstock.broker.group_ages import GroupAges
from penstock.broker.progress import (
    ChannelSettings,
    GoneRecord,
    GroupRecord,
    Progress,
    Record,
    TopicRecord,
    TopicSettings,
    WriterRecord,
)
from penstock.broker.publish.append_observer import AppendObserver
from penstock.broker.publish.batching import Outcome, Staged, batch_of, batches_of
from penstock.broker.publish.bounds import Bounds, Overflow
from penstock.broker.publish.commit import Commit
from penstock.broker.publish.limiter import Limiter
from penstock.broker.publish.records import PlacedRecords, Records
from penstock.broker.publish.writers import Writers
from penstock.broker.steady_time import SteadyTime
from penstock.broker.topic_config import TopicConfig
from penstock.broker.topic_journal import TopicJournal
from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.errors import ExitingError, OffsetOutOfRangeError, StorageError
from penstock.core.names import is_ephemeral
from penstock.core.ranges import RangeSet
from penstock.core.units import SECOND
from penstock.storage.batch import Batch
from penstock.storage.journal import Journal
from penstock.storage.log import Log
from penstock.storage.memory_log import MemoryLog
from penstock.storage.queues.one_queue import OneQueue, Queues
from penstock.storage.recovery.damage import Damage, DamageRecord
from penstock.storage.retention import Retention

logger = logging.getLogger(__name__)

_NO_BOUNDS: Final = Bounds()
_QUEUE = attrgetter("queue")


class Topic:
    """A named log with its channels and groups. ``journal`` is None for an ephemeral topic."""

    # Slots: CPython finds more than 30 attributes in a dict much slower, and each publish asks.
    __slots__ = ("__weakref__", "_alarms", "_chance", "_clock", "_deleted", "_drops_oldest",
                 "_last_queue", "_limiter", "_observers", "_options", "_unseen", "channels",
                 "config", "dropped_count", "ephemeral", "exiting", "gated", "group_ages", "groups",
                 "head", "is_held_up", "journal", "log", "message_bytes", "message_count", "name",
                 "paused", "queues", "refused_count", "retention", "spread", "staged", "time",
                 "writers")  # fmt: skip

    def __init__(
        self,
        name: str,
        log: Log | MemoryLog,
        journal: Journal | None,
        *,
        clock: Clock,
        chance: Chance,
        alarms: Alarms,
        options: ChannelOptions,
        bounds: Bounds = _NO_BOUNDS,
        queues: Queues | None = None,
        observers: Sequence[AppendObserver] = (),
    ) -> None:
        self.name = name
        self.log = log
        self.queues = queues or OneQueue(log)
        self.spread = 1  # publishes that name no queue rotate over the first `spread`
        self.channels: dict[str, Channel] = {}
        self.groups: dict[str, int] = {}
        self.group_ages = GroupAges(clock)
        self.writers = Writers()
        self.head = log.start_offset
        self.paused = False
        self.gated = False  # the shell still looks for channels to make first
        self.ephemeral = is_ephemeral(name)
        self.message_count = 0
        self.message_bytes = 0
        self.refused_count = 0  # messages of publishes for which a full topic had no room
        self.dropped_count = 0  # messages that were let go for want of room
        self.exiting = False
        self.is_held_up = False  # publishes wait for the disk, and none may join them
        self.config = TopicConfig(name, bounds, options)
        self.retention: Retention | None = None  # its own: unread messages are not kept longer
        self._observers = observers
        self._limiter: Limiter | None = None
        self._drops_oldest = False
        self.staged: list[Staged] = []
        self._unseen: dict[int, int] = {}  # number of messages waiting for a sync, by queue
        self._last_queue = -1  # so that the first publish goes to queue 0
        self.time = SteadyTime(clock)
        self._deleted: set[str] = set()  # channels that the journal knows to be gone
        self._clock = clock
        self._chance = chance
        self._alarms = alarms
        self._options = options
        self.journal = TopicJournal(name, log, journal, self._records, self._saved)
        if journal is not None:
            assert isinstance(log, Log)
            progress = Progress.replay(journal.records, journal.gaps)
            # A power cut took commits that the journal still names. A writer that comes again
            # must not be told that they are done.
            if self.writers.restore(log, journal, progress):
                self.journal.write_whole()
            self._restore(log, progress)
            # What was just read needs no save, unless the file has grown too long.
            self.journal.changed = journal.wants_compaction
        # After the journal, which has the topic's own bounds.
        self._apply_bounds()
        if not self.journal.written:
            self.journal.save_now()

    # --- publishing ----------------------------------------------------------------------------

    def stage(
        self, records: Records, delay_ns: int, done: Outcome, queue: int | None = None
    ) -> None:
        """Publish with the next commit; ``done`` is called by it with None or the error."""
        if queue is None:
            queue = self._next_queue() if self.spread > 1 else 0
        self.staged.append(Staged(records, delay_ns, done, queue))

    def _next_queue(self) -> int:
        self._last_queue = (self._last_queue + 1) % self.spread
        return self._last_queue

    def commit(self) -> tuple[list[Outcome], StorageError | None]:
        """Append all that is staged; those to be told, and the error that all of them met.

        The caller tells them: at the ``fsync`` level only after the sync. Those that a full topic
        refuses make a TopicFullError of it.
        """
        staged, self.staged = self.staged, []
        alone = staged[0] if len(staged) == 1 and self._is_plain else None
        if alone is not None and not alone.delay_ns and not alone.records.note:
            return self._commit_alone(alone)
        if self._limiter is None:
            outcomes = [item.done for item in staged]
        else:
            staged, outcomes = self._limiter.admit(staged)
        # As in Go, what an ephemeral topic drops is counted and answered OK (NSQ spec 3.1).
        kept = self._drop_beyond_bounds(staged) if self.ephemeral else staged
        error = None
        try:
            self._append(kept)
            for item in staged:
                self.message_count += item.records.count
                self.message_bytes += item.records.nbytes
        except StorageError as failure:
            error = failure
        return outcomes, error

    @property
    def joins(self) -> bool:
        """True if publishes to a queue may be staged as one: nothing looks at each."""
        return self._limiter is None and not self.ephemeral and not self.is_held_up

    @property
    def _is_plain(self) -> bool:
        """True if a publish that comes by itself is written and seen at once, without a limit."""
        # Whatever ``_commit_alone`` leaves out has a line here.
        is_bound = self.exiting or self._limiter is not None or self.writers.pending
        return not is_bound and isinstance(self.log, Log) and self.log.takes_one

    def _commit_alone(self, item: Staged) -> tuple[list[Outcome], StorageError | None]:
        """Commit a publish that comes by itself, without the choices for several."""
        log, queues, records = self.log, self.queues, item.records
        assert isinstance(log, Log)
        offset, timestamp_ns = log.append_offset, self._stamp()
        if records.dialect:
            cast(PlacedRecords, records).queue_offset = queues.end(item.queue)
        batch = batch_of(item, offset, log.id_base + offset, timestamp_ns)
        try:
            log.append_one(batch)
        except StorageError as failure:  # nothing is counted or shown
            return [item.done], failure
        self.message_count += records.count
        self.message_bytes += records.nbytes
        queues.append(batch)
        for observer in self._observers:
            observer.appended(self.name, (batch,))
        if self._distributes():
            self._advance(self.head < offset)
        return [item.done], None

    def _append(self, staged: list[Staged]) -> None:
        if not staged:
            return
        if self.exiting:
            raise ExitingError
        # A batch is of one queue. The sort is stable: each queue keeps the order of publishes.
        if len(staged) > 1 and not isinstance(self.queues, OneQueue):
            staged = sorted(staged, key=_QUEUE)
        # A copy: if the log refuses these batches, none of their messages waits for a sync.
        unseen = dict(self._unseen)
        batches = batches_of(
            staged,
            self.queues,
            self.log.append_offset,
            self.log.id_base,
            self._stamp(),
            unseen,
        )
        self._store(batches, unseen)

    def _stamp(self) -> int:
        """The time of what is appended now (wall ns)."""
        wall_ns = self._clock.wall_ns()
        if self.time.note_stamp(self.log.append_offset, wall_ns):
            self.journal.save_quietly()  # a restart would mistake all ages
        return wall_ns

    def _store(self, batches: list[Batch], unseen: dict[int, int]) -> None:
        self.log.append(batches)
        self._stored(batches, unseen)

    def _stored(self, batches: list[Batch], unseen: dict[int, int]) -> None:
        log = self.log
        if self._limiter is not None:
            self._limiter.stored(batches)
        # At the fsync level, and while copies are awaited, the log hides what it has appended.
        if log.next_offset < log.append_offset:
            self._unseen = unseen
        else:
            self._arrive(batches)

    def begin_commit(self, writer: str, batch: int, nbytes: int) -> Commit:
        """Begin to append a writer's batch of about ``nbytes``, all or nothing over a crash.

        Nothing else may be appended until it is ended or cancelled. Raises StorageError.
        """
        if self.exiting:
            raise ExitingError
        if not self.writers.begun:  # else a crash would not look for what they have committed
            self.writers.begun = True
            if not self.journal.save_now():
                self.writers.begun = False
                raise StorageError(f"{self.name}: cannot write down that it has writers")
        assert isinstance(self.log, Log)
        bounds, unseen = self.queues.bounds, self._unseen
        ends = [bounds(queue)[1] + unseen.get(queue, 0) for queue in range(self.spread)]
        first_queue = self._next_queue() if self.spread > 1 else 0
        return Commit(self.log, nbytes, self._stamp(), ends, first_queue, writer, batch)

    def end_commit(self, commit: Commit, nbytes: int) -> None:
        """Make a finished commit, whose bodies have ``nbytes``, part of the log; or cancel it.

        Raises StorageError; TopicFullError when the topic has no room for it.
        """
        try:
            if self.exiting:
                raise ExitingError
            self._take(commit, nbytes)
        # Whatever refuses it, a full topic and an exiting one too, no byte stays behind the end.
        except StorageError:
            commit.cancel()
            raise
        self.message_count += commit.end - commit.first
        self.message_bytes += nbytes

    def _take(self, commit: Commit, nbytes: int) -> None:
        if self._limiter is not None:
            self._limiter.admit_all(commit.end - commit.first, nbytes)
        batches = commit.written.batches
        unseen = dict(self._unseen)
        for each in batches:
            unseen[each.queue] = unseen.get(each.queue, 0) + each.count
        # Known before the messages are seen: at most levels that is when they are stored.
        record = WriterRecord(commit.writer, commit.batch, commit.end, commit.timestamp_ns)
        self.writers.appended(record, commit.first)
        try:
            commit.log.end_append(commit.written)
        except StorageError:
            del self.writers.pending[-1:]
            raise
        self._stored(batches, unseen)

    def end_sync(self, error: StorageError | None) -> None:
        """End a sync of the log: messages published before it began become visible, unless copies
        are awaited.
        """
        assert isinstance(self.log, Log)
        self._seen(self.log.end_sync(error))

    def show(self, end: int) -> None:
        """Make messages visible that are copied up to ``end``."""
        assert isinstance(self.log, Log)
        self._seen(self.log.show(end))

    def _seen(self, batches: list[Batch]) -> None:
        for batch in batches:
            self._unseen[batch.queue] -= batch.count
        if batches:
            self._arrive(batches)

    def _arrive(self, batches: list[Batch]) -> None:
        """Make these batches visible to readers."""
        if self.writers.pending:
            self.writers.show(self.log.next_offset)
        # The index first: a pull that an observer wakes looks its messages up there.
        for batch in batches:
            self.queues.append(batch)
        for observer in self._observers:
            observer.appended(self.name, batches)
        self._distribute(batches)
        if self._limiter is not None:
            self._limiter.arrived(batches)

    def _drop_beyond_bounds(self, staged: list[Staged]) -> list[Staged]:
        """Drop the newest that an ephemeral topic has no room for while nobody takes them, as Go's
        nsqd does, unless it is to drop the oldest; returns the others.

        With channels it is they that drop; the log forgets what none of them needs any more.
        """
        assert isinstance(self.log, MemoryLog)
        if self.log.wants_compaction:
            self.log.compact(self._needed())
        if self._drops_oldest or self._distributes():
            return staged
        kept = []
        room = self._options.mem_queue_size - self.depth
        for item in staged:
            # An MPUB is kept or dropped whole; a smaller publish behind it may still fit.
            if item.records.count <= room:
                room -= item.records.count
                kept.append(item)
            else:
                self.dropped_count += item.records.count
        return kept

    def _needed(self) -> RangeSet:
        needed = RangeSet()
        needed.add(self.head, self.log.next_offset)
        for channel in self.channels.values():
            for first, next_ in channel.state.needed():
                needed.add(first, next_)
        return needed

    # --- channels ------------------------------------------------------------------------------

    def channel(self, name: str) -> Channel:
        """The channel of that name, made when it is not there; call ``distribute`` afterwards."""
        channel = self.channels.get(name)
        if channel is None:
            channel = self.channels[name] = self._new_channel(name)
            if not channel.ephemeral:
                self.journal.save_now()
        return channel

    def listed_channel(self, name: str) -> Channel:
        """The channel of that name, which is on a list kept apart from the journal.

        If the journal has lost it, its progress is unknown: it begins at the log's start.
        """
        is_lost = name not in self.channels and name not in self._deleted
        start = self.log.start_offset
        # A channel made with the head at the start begins there anyway: then nothing is lost.
        if is_lost and self.head > start and not is_ephemeral(name):
            what = f"channel {name} is not in the journal; it begins at the log's start"
            self.damage.report(Damage("cursors.journal", what))
            channel = self.channels[name] = self._new_channel(name)
            channel.seek(start, self.head)
            self.journal.save_now()
        return self.channel(name)

    def delete_channel(self, name: str) -> Channel:
        """Forget a channel and all it held. Raises KeyError."""
        channel = self.channels.pop(name)
        self.config.channels.pop(name, None)
        # As in Go, so that later FINs of its consumers fail (NSQ spec 3.2).
        channel.empty()
        self._alarms.cancel(channel)  # else its time-outs would keep it for a minute
        if not channel.ephemeral:
            self.journal.note(GoneRecord(name, None))
            self.journal.save_now()
        return channel

    def distribute(self) -> None:
        """Give the channels what the log holds, unless paused."""
        self._distribute([])

    def _distributes(self) -> bool:
        return bool(self.channels) and not self.paused and not self.gated

    def _distribute(self, batches: list[Batch]) -> None:
        if not self._distributes():
            if self.ephemeral and self._drops_oldest:
                self._drop_surplus()
            return
        delayed = [batch for batch in batches if batch.delay_ns]
        if delayed:  # before they count as waiting, or a full channel would drop others for them
            now = self._clock.monotonic_ns()
            for channel in self.channels.values():
                for batch in delayed:
                    channel.defer(batch.first_offset, batch.next_offset, batch.delay_ns, now)
        pass_by_others(batches, self.channels)
        # A deferral of what waited in the topic begins when a channel gets it (NSQ spec 1.7, DPUB).
        backlog = self.head < (batches[0].first_offset if batches else self.log.next_offset)
        self._advance(backlog)

    def _drop_surplus(self) -> None:
        surplus = self.depth - self._options.mem_queue_size
        if surplus > 0:
            self.dropped_count += surplus
            self.skip_to(self.head + surplus)

    def _advance(self, backlog: bool) -> None:
        self.head = self.log.next_offset
        for channel in self.channels.values():
            channel.advance(self.head, backlog)
        self.journal.changed = True

    def _new_channel(self, name: str) -> Channel:
        channel = Channel(
            name,
            self.log,
            self.head,
            clock=self._clock,
            chance=self._chance,
            alarms=self._alarms,
            options=self._options,
            topic_name=self.name,
            bounded=self.ephemeral,
        )
        channel.limit_attempts(*self.config.attempts(name))
        channel.state.drops_oldest = self._drops_oldest
        return channel

    # --- administration ------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Messages that no channel has been given yet."""
        return self.log.next_offset - self.head

    @property
    def backend_depth(self) -> int:
        """The number of waiting messages that are beyond the memory queue."""
        # All of it is in the log. nsqadmin shows depth - backend_depth as memory (NSQ spec 3.3).
        return 0 if self.ephemeral else max(0, self.depth - self._options.mem_queue_size)

    def pause(self) -> None:
        # Durable before /topic/pause is answered, as Go writes nsqd.dat then (NSQ spec 2.2).
        self.paused = True
        self.journal.save_now()

    def unpause(self) -> None:
        self.paused = False
        self.journal.save_now()
        self.distribute()

    def empty(self) -> None:
        """Drop what no channel has been given yet; this also accepts all damage."""
        self.accept_damage()
        # Go empties the topic's own queue alone; its channels keep theirs (NSQ spec 3.1).
        if self.log.next_offset > self.head:
            self.skip_to(self.log.next_offset)
            self.journal.save_now()

    def skip_to(self, end: int) -> None:
        """Go on from ``end``, at or behind ``head``; no channel is given what is before it."""
        for channel in self.channels.values():
            if end > channel.state.head:
                channel.state.skip(channel.state.head, end)
        self.head = end
        self.journal.changed = True

    def seek(self, channel: Channel, offset: int) -> None:
        """Let a channel go on from an offset of the log; what it held is forgotten.

        Raises OffsetOutOfRangeError when the log does not hold it.
        """
        start, end = self.log.start_offset, self.log.next_offset
        if not start <= offset <= end:
            raise OffsetOutOfRangeError(self.name, 0, offset, start, end)
        channel.seek(offset, self.head)
        self._was_moved()

    def seek_part(self, channel: Channel, done: RangeSet, wanted: RangeSet) -> None:
        """Let a channel take some messages for finished, and have others again."""
        channel.seek_part(done, wanted)
        self._was_moved()

    def _was_moved(self) -> None:
        if self._limiter is not None:
            self._limiter.reset()
        self.journal.save_now()

    # --- damage --------------------------------------------------------------------------------

    @property
    def damage(self) -> DamageRecord:
        """The record of damage. While any is pending, nothing is deleted or dropped."""
        return self.log.damage

    def accept_damage(self) -> bool:
        """Accept all damage for an operator; False if that cannot be written to disk."""
        try:
            self.damage.accept(self.log.start_offset)
        except StorageError as error:
            logger.error("TOPIC(%s): failed to accept damage - %s", self.name, error)
            return False
        return True

    # --- settings ------------------------------------------------------------------------------

    def configure(self, settings: TopicSettings) -> None:
        """Apply the topic's limits; None: the command line's default. Written down at once."""
        self.config.own = settings
        self._apply_bounds()
        self.journal.note(settings)
        self.journal.save_now()

    def configure_channel(self, settings: ChannelSettings) -> None:
        """Apply a channel's attempts; None: the command line's default. Written down at once.

        Raises KeyError.
        """
        channel = self.channels[settings.name]
        self.config.channels[channel.name] = settings
        channel.limit_attempts(*self.config.attempts(channel.name))
        if not channel.ephemeral:
            self.journal.note(settings)
            self.journal.save_now()

    def _apply_bounds(self) -> None:
        bounds = self.config.bounds
        self._limiter = Limiter(self, bounds, self._clock) if bounds else None
        self._drops_oldest = bounds.overflow is Overflow.DROP_OLDEST
        for channel in self.channels.values():
            channel.state.drops_oldest = self._drops_oldest

    # --- groups --------------------------------------------------------------------------------

    def commit_group(self, name: str, offset: int | None) -> None:
        """Move a group to an offset, or make it at the log's start; retention waits for it."""
        if offset is None:
            offset = self.groups.get(name, self.log.start_offset)
        self.groups[name] = min(offset, self.log.next_offset)  # no reader has seen more
        self.group_ages.moved(name)
        self.journal.changed = True

    def age_groups(self, *, keep: bool) -> None:
        """Note which groups have nothing to read; with ``keep`` the next save writes all ages."""
        for name, offset in self.groups.items():
            if offset >= self.log.next_offset:
                self.group_ages.moved(name)
        self.journal.changed |= keep

    def delete_group(self, name: str) -> None:
        """Forget a group. Raises KeyError."""
        del self.groups[name]
        self.group_ages.forget(name)
        # Not at once: a group that a crash brings back holds messages longer, but loses none.
        self.journal.note(GoneRecord(None, name))
        self.journal.changed = True

    # --- keeping progress ----------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        """True if there is something to write down."""
        return (
            self.journal.is_due
            or self.time.unwritten
            or any(c.state.changed and not c.ephemeral for c in self.channels.values())
        )

    def follow_clock(self) -> None:
        """Note that the system's time was set, also if no message has come since."""
        if self.time.note_stamp(self.log.append_offset, self._clock.wall_ns()):
            self.journal.save_quietly()  # a restart would mistake all ages

    def _records(self, everything: bool) -> list[Record]:
        """The records of the topic for its journal: all that count, or all but what stays."""
        records: list[Record] = self.config.records() if everything else []
        records += self.writers.records(self.log.next_offset, everything=everything)
        records.append(TopicRecord(self.head, self.paused))
        if self.time.unwritten or (everything and self.time.is_uneven):
            records.append(self.time.record(self.log.start_offset))
        records += [
            GroupRecord(name, offset, self.group_ages.age_ns(name) // SECOND)
            for name, offset in self.groups.items()
        ]
        records += [
            channel.progress.record(everything=everything)
            for channel in self.channels.values()
            if not channel.ephemeral and (everything or channel.state.changed)
        ]
        return records

    def _saved(self) -> None:
        self.writers.written()
        self.time.unwritten = False

    def _restore(self, log: Log, progress: Progress) -> None:
        # Before anything is published: offsets that were given out never name other messages.
        log.skip_to(progress.end())
        self.time.restore(progress.clock, log.next_offset, log.newest_ns)
        if progress.head is not None:
            self.head = max(self.log.start_offset, progress.head)
        self.paused = progress.paused
        self.groups = progress.groups
        for name, age_s in progress.group_ages.items():
            self.group_ages.restore(name, age_s * SECOND)
        self.config.own = progress.settings
        self.config.channels = progress.channel_settings
        self._deleted = progress.deleted
        for name, record in progress.channels.items():
            channel = self.channels[name] = self._new_channel(name)
            channel.restore(record, progress.deferred(name), progress.doubtful(name))
            channel.limit_attempts(*self.config.attempts(name))
            # The older record may be the channel's.
            channel.advance(max(channel.state.head, self.head))
        if self._distributes():
            self._advance(backlog=False)
        for channel in self.channels.values():
            channel.message_count = 0  # counters are of this process

    def floor(self) -> int:
        """No channel or group needs an offset below this one.

        Messages that no channel was given yet are needed too, for a first channel that may come,
        unless the topic has its own retention.
        """
        floors = [*self.groups.values(), *[each.state.floor() for each in self.channels.values()]]
        if self.channels or self.retention is None:
            floors.append(self.head)
        if (noted := self.writers.floor) is not None:
            floors.append(noted)  # else a crash would forget the commit with its note
        return min(floors, default=self.log.next_offset)

    def trim(self, retention: Retention) -> int:
        """Delete what nobody needs and retention does not keep; how many segments."""
        if not self.log.trimmable:  # a million deferrals make the floor a matter of 100 ms
            return 0
        # What looks consumed may be needed by a channel that damage has set back.
        if self.damage.pending:
            return 0
        retention = self.config.retention(self.retention or retention)
        deleted = self.time.trim(self.log, self.floor(), retention, self._let_go)
        # A topic with its own retention may delete what no channel was given.
        if deleted:
            self.head = max(self.head, self.log.start_offset)
            self.journal.changed = True
            self.queues.trim()
        return deleted

    def _let_go(self, start: int) -> None:
        """Write down what cannot be made again from a log that starts there."""
        try:
            self.queues.secure(start)
        except StorageError as error:  # on a full disk deleting helps
            logger.warning("TOPIC(%s): cannot write the index of queues - %s", self.name, error)
        self.journal.note_start(start)

    def close(self) -> None:
        """Write, sync and close the files: the log first, as the journal records how far it is
        synced.
        """
        self.exiting = True
        try:
            self.queues.close()
            self.log.close()
        finally:
            self.journal.close()

    def delete(self) -> None:
        """Remove the topic's files. Raises StorageError, and goes on as it was then."""
        # First: what follows cannot be undone.
        self.log.delete()
        self.exiting = True
        for channel in self.channels.values():
            channel.empty()
            self._alarms.cancel(channel)
        self.journal.abandon()
        self.queues.abandon()
