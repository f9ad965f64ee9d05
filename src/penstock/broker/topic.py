"""A topic: what is published to it becomes batches of one log, which its channels read.

Publishes are staged, and ``commit`` appends all that were staged since the last time with one
write: that is the group commit which makes single publishes cheap. Each staged publish is told the
outcome.

``head`` is how far the log has been given to the channels. It stands still while the topic is
paused or has no channel: the first channel then gets the whole backlog, later ones what comes
after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from penstock.broker.alarms import Alarms
from penstock.broker.channel import Channel, ChannelOptions
from penstock.broker.progress import (
    GoneRecord,
    GroupRecord,
    Progress,
    Record,
    TopicRecord,
    encode_record,
)
from penstock.broker.records import Records
from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.names import is_ephemeral
from penstock.storage.batch import Batch, Positions, encode
from penstock.storage.journal import Journal
from penstock.storage.log import Log
from penstock.storage.memory_log import MemoryLog
from penstock.storage.retention import Retention

Outcome = Callable[[StorageError | None], None]
_BATCH_BYTES_MAX = 1024 * 1024


class Staged(NamedTuple):
    """A publish that waits for the next commit."""

    records: Records
    delay_ns: int
    done: Outcome


class Topic:
    """A named log with its channels and groups. ``journal`` is None for an ephemeral topic."""

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
    ) -> None:
        self.name = name
        self.log = log
        self.channels: dict[str, Channel] = {}
        self.groups: dict[str, int] = {}
        self.head = log.start_offset
        self.paused = False
        self.gated = False  # the shell still looks for channels to make first
        self.ephemeral = is_ephemeral(name)
        self.message_count = 0
        self.message_bytes = 0
        self.exiting = False
        self._journal = journal
        self._staged: list[Staged] = []
        self._gone: list[GoneRecord] = []
        self._changed = False
        self._save_failed = False  # then the journal is written anew, with all there is
        self._clock = clock
        self._chance = chance
        self._alarms = alarms
        self._options = options
        if journal is not None:
            self._restore(Progress.replay(journal.records))

    # --- publishing ----------------------------------------------------------------------------

    def stage(self, records: Records, delay_ns: int, done: Outcome) -> None:
        """Publish with the next commit; ``done`` is called by it with None or the error."""
        self._staged.append(Staged(records, delay_ns, done))

    def commit(self) -> tuple[list[Outcome], StorageError | None]:
        """Append all that is staged; those to be told, and the error that all of them met.

        The caller tells them: at the ``fsync`` level only after the sync.
        """
        staged, self._staged = self._staged, []
        self.message_count += sum([item.records.count for item in staged])
        self.message_bytes += sum([item.records.nbytes for item in staged])
        error = None
        if isinstance(self.log, MemoryLog):
            staged_kept = self._within_bounds(self.log, staged)
        else:
            staged_kept = staged
        try:
            batches = self.log.append(list(self._encode(staged_kept))) if staged_kept else []
            self._distribute(batches)
        except StorageError as failure:
            error = failure
            self.message_count -= sum([item.records.count for item in staged])
            self.message_bytes -= sum([item.records.nbytes for item in staged])
        return [item.done for item in staged], error

    def _encode(self, staged: list[Staged]) -> Iterator[bytes]:
        timestamp_ns = self._clock.wall_ns()
        offset = self.log.next_offset
        for group in _batches(staged):
            first_id = self.log.id_base + offset
            frames = []
            count = 0
            for records, _, _ in group:
                encoded, table = records.encode(first_id + count, timestamp_ns)
                frames.append(encoded)
                count += records.count
            stride = _common_stride(group)
            if not stride and len(group) > 1:
                table = _table_of_singles(group)
            yield encode(offset, first_id, timestamp_ns, count, stride, frames,
                         table=table, delay_ns=group[0].delay_ns)  # fmt: skip
            offset += count

    def _within_bounds(self, log: MemoryLog, staged: list[Staged]) -> list[Staged]:
        """An ephemeral topic drops what it has no room for: the newest while nobody subscribes, the
        oldest of a channel that lies far behind."""
        limit = self._options.mem_queue_size
        if not self.channels or self.paused:
            kept = []
            room = limit - (log.next_offset - self.head)
            for item in staged:
                room -= item.records.count
                if room >= 0:
                    kept.append(item)
            return kept
        if log.next_offset - log.start_offset > limit:
            latest = max(self.floor(), log.next_offset - 2 * max(limit, 1000))
            log.trim(latest, 0, Retention())
        return staged

    # --- channels ------------------------------------------------------------------------------

    def channel(self, name: str) -> Channel:
        """The channel of that name, made when it is not there; call ``distribute`` afterwards."""
        channel = self.channels.get(name)
        if channel is None:
            channel = self._new_channel(name)
            self.channels[name] = channel
            self._changed = True
        return channel

    def delete_channel(self, name: str) -> Channel:
        """Forget a channel and all it held. Raises KeyError."""
        channel = self.channels.pop(name)
        channel.empty()
        self._gone.append(GoneRecord(name, None))
        self._changed = True
        return channel

    def distribute(self) -> None:
        """Give the channels what the log holds, unless paused."""
        self._distribute([])

    def _distribute(self, batches: list[Batch]) -> None:
        if self.paused or self.gated or not self.channels:
            return
        backlog = self.head < (batches[0].first_offset if batches else self.log.next_offset)
        self.head = self.log.next_offset
        for channel in self.channels.values():
            channel.advance(self.head, backlog)
        delayed = [batch for batch in batches if batch.delay_ns]
        if delayed:
            now = self._clock.monotonic_ns()
            for channel in self.channels.values():
                for batch in delayed:
                    channel.defer(batch.first_offset, batch.next_offset, batch.delay_ns, now)
        self._changed = True

    def _new_channel(self, name: str) -> Channel:
        return Channel(name, self.log, self.head, clock=self._clock, chance=self._chance,
                       alarms=self._alarms, options=self._options,
                       bounded=self.ephemeral)  # fmt: skip

    # --- administration ------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Messages that no channel has been given yet."""
        return self.log.next_offset - self.head

    @property
    def backend_depth(self) -> int:
        """How many of them are beyond the memory queue."""
        return 0 if self.ephemeral else max(0, self.depth - self._options.mem_queue_size)

    def pause(self) -> None:
        self.paused = True

    def unpause(self) -> None:
        self.paused = False
        self.distribute()

    def empty(self) -> None:
        """Drop what no channel has been given yet."""
        end = self.log.next_offset
        if end > self.head:
            for channel in self.channels.values():
                channel.skip(self.head, end)
            self.head = end
            self._changed = True

    # --- groups --------------------------------------------------------------------------------

    def commit_group(self, name: str, offset: int | None) -> None:
        """Move a group to an offset, or make it at the log's start; retention waits for it."""
        if offset is None:
            offset = self.groups.get(name, self.log.start_offset)
        self.groups[name] = offset
        self._changed = True

    def delete_group(self, name: str) -> None:
        """Forget a group. Raises KeyError."""
        del self.groups[name]
        self._gone.append(GoneRecord(None, name))
        self._changed = True

    # --- keeping progress ----------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        """Whether there is something to write down."""
        return self._changed or any(channel.changed for channel in self.channels.values())

    def save(self) -> None:
        """Write down the progress since the last time. Raises StorageError; nothing is lost
        then.
        """
        if self._journal is None:
            return
        compact = self._journal.wants_compaction or self._save_failed
        self._save_failed = True
        records: list[Record] = [] if compact else list(self._gone)
        records.append(TopicRecord(self.head))
        records += [GroupRecord(name, offset) for name, offset in self.groups.items()]
        records += [
            channel.record(everything=compact)
            for channel in self.channels.values()
            if not channel.ephemeral and (compact or channel.changed)
        ]
        encoded = [encode_record(record) for record in records]
        if compact:
            self._journal.replace(encoded)
        else:
            self._journal.append(encoded)
        self._gone = []
        self._changed = self._save_failed = False

    def _restore(self, progress: Progress) -> None:
        end = self.log.next_offset
        if progress.head is not None:
            self.head = max(self.log.start_offset, min(progress.head, end))
        self.groups = {name: min(offset, end) for name, offset in progress.groups.items()}
        for name, record in progress.channels.items():
            channel = self.channel(name)
            channel.restore(record, progress.deferred(name), end)
        self.distribute()
        for channel in self.channels.values():
            channel.message_count = 0  # counters are of this process

    def floor(self) -> int:
        """No channel or group needs an offset below this one."""
        floors = [channel.floor() for channel in self.channels.values()]
        return min([*floors, *self.groups.values(), self.head])

    def trim(self, retention: Retention) -> int:
        """Delete what nobody needs and retention does not keep; how many segments."""
        return self.log.trim(self.floor(), self._clock.wall_ns(), retention)

    def sync_journal(self) -> None:
        if self._journal is not None:
            self._journal.sync()

    def close(self) -> None:
        """Write and sync all and close the files."""
        self.exiting = True
        try:
            self.save()
            self.sync_journal()
        finally:
            if self._journal is not None:
                self._journal.close()
            self.log.close()

    def delete(self) -> None:
        """Remove the topic's files."""
        self.exiting = True
        for channel in self.channels.values():
            channel.empty()
        if self._journal is not None:
            self._journal.close()
        self.log.delete()


def _batches(staged: list[Staged]) -> Iterator[list[Staged]]:
    """Publishes that become one batch: neighbours of one delay, all of one frame size or all
    single.
    """
    group: list[Staged] = []
    nbytes = 0
    for item in staged:
        if group and not (_match(group[0], item) and nbytes < _BATCH_BYTES_MAX):
            yield group
            group, nbytes = [], 0
        group.append(item)
        nbytes += item.records.nbytes
    if group:
        yield group


def _match(one: Staged, other: Staged) -> bool:
    if one.delay_ns != other.delay_ns:
        return False
    if one.records.count == other.records.count == 1:
        return True
    return (
        one.records.stride == other.records.stride != 0
        and min(one.records.count, other.records.count) > 1
    )


def _common_stride(group: list[Staged]) -> int:
    stride = group[0].records.stride
    return stride if all(item.records.stride == stride for item in group) else 0


def _table_of_singles(group: list[Staged]) -> Positions:
    sizes = [0, *(item.records.stride for item in group)]
    return np.cumsum(sizes, dtype=np.uint32)
