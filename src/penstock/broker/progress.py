"""Records of channels and groups, so that a restart goes on where they were.

One record a change, newest last. A channel's record holds its cursor and the few ranges that differ
from "below it done, above it waiting"; of deferrals, of which there may be a million, only what was
added and removed since the record before. Deadlines are wall-clock ns: monotonic time ends with the
process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

import msgspec

from penstock.core.errors import StorageError
from penstock.core.malformed import MALFORMED
from penstock.core.ranges import RangeSet
from penstock.storage.extent import missing

Range: TypeAlias = tuple[int, int]
Unfinished: TypeAlias = tuple[int, int, int]  # first, next, attempts so far
Deferral: TypeAlias = tuple[int, int, int, int]  # deadline, first, next, attempts so far
Step: TypeAlias = tuple[int, int]  # offset, lead of the stamps from it on
Stop: TypeAlias = tuple[int, int]  # end of the log, ns that no log was in use


class ChannelRecord(msgspec.Struct, array_like=True, tag="c"):
    """Progress of one channel. With ``reset``, ``deferred`` is all there is, not an addition."""

    name: str
    cursor: int
    head: int
    unfinished: list[Unfinished]
    skips: list[Range]
    reset: bool
    deferred: list[Deferral]
    undeferred: list[int]  # first offsets
    serial: int = 0  # one more than the record before had, unless an earlier version wrote it
    written_ns: int = 0  # wall time


class GroupRecord(msgspec.Struct, array_like=True, tag="g"):
    """The offset up to which a group has committed, and the seconds since it moved."""

    name: str
    offset: int
    age_s: int = 0


class TopicRecord(msgspec.Struct, array_like=True, tag="t"):
    """The offset up to which a topic has given its messages to its channels."""

    head: int
    paused: bool = False


class WriterRecord(msgspec.Struct, array_like=True, tag="w"):
    """The last batch that a writer has committed: the log offset behind it, and when (wall ns)."""

    name: str
    batch: int
    end: int
    wall_ns: int = 0


class WritersRecord(msgspec.Struct, array_like=True, tag="e"):
    """A topic has writers: all that they have committed below this offset is in earlier records."""

    end: int


class ChannelSettings(msgspec.Struct, array_like=True, tag="m"):
    """Settings of one channel; None: the command line's default."""

    name: str
    max_attempts: int | None = None
    dead_letter_topic: str | None = None


class TopicSettings(msgspec.Struct, array_like=True, tag="b"):
    """Settings of the topic; None: the command line's default."""

    max_depth: int | None = None
    max_bytes: int | None = None
    overflow: str | None = None
    retention_ns: int | None = None
    retention_bytes: int | None = None


class ClockRecord(msgspec.Struct, array_like=True, tag="k"):
    """The settings of the system's time over the life of a log, and the long stops of the broker.

    A step holds an offset, and the lead in ns of the stamps from it on over a time that was never
    set. When this was written, the system's time had the lead ``ahead_ns`` and read ``wall_ns``;
    before it was set, it had reached ``peak_ns``. A stop holds the end of the log at a
    start, and for how many ns no log had been in use then.
    """

    steps: list[Step]
    ahead_ns: int
    wall_ns: int
    peak_ns: int
    stops: list[Stop] = []


class GoneRecord(msgspec.Struct, array_like=True, tag="x"):
    """A channel or group was deleted."""

    channel: str | None
    group: str | None


Record: TypeAlias = (
    ChannelRecord
    | GroupRecord
    | TopicRecord
    | WriterRecord
    | WritersRecord
    | ChannelSettings
    | TopicSettings
    | ClockRecord
    | GoneRecord
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """The bytes of a record in the journal."""
    return _encoder.encode(record)


class Progress:
    """The sum of a journal's records."""

    def __init__(self) -> None:
        self.head: int | None = None
        self.paused = False
        self.writers: list[WriterRecord] = []  # every one, in their order
        self.writers_end: int | None = None
        self.channels: dict[str, ChannelRecord] = {}
        self.groups: dict[str, int] = {}
        self.group_ages: dict[str, int] = {}  # seconds
        self.settings = TopicSettings()
        self.clock: ClockRecord | None = None
        self.channel_settings: dict[str, ChannelSettings] = {}
        self.deleted: set[str] = set()  # channels, for certain
        self._deferred: dict[str, dict[int, Deferral]] = {}
        self._gaps = 0
        self._gaps_seen: dict[str, int] = {}  # by the newest record of a channel
        self._doubts: dict[str, RangeSet] = {}

    @classmethod
    def replay(cls, records: Iterable[bytes], gaps: Collection[int] = ()) -> Progress:
        """Replay the records in order.

        Directly before each record whose number is in ``gaps``, others may be missing, behind the
        last one if it is their number; messages that those may have deferred count as unfinished.
        Raises StorageError for a record of an unknown kind.
        """
        progress = cls()
        number = 0
        for number, data in enumerate(records, 1):
            if number - 1 in gaps:
                progress._pass_gap()
            try:
                progress._apply(_decoder.decode(data))
            except MALFORMED as error:
                # It is whole, by its checksum, but not of this version.
                raise StorageError(f"cursor journal holds an unknown record: {error}") from error
        if number in gaps:
            progress._pass_gap()
        return progress

    def end(self) -> int:
        """The end of what anybody has been given, by what was written down."""
        heads = [record.head for record in self.channels.values()]
        return max(self.head or 0, *heads, *self.groups.values(), 0)

    def deferred(self, channel: str) -> list[Deferral]:
        """The deferrals of a channel that were not over."""
        return list(self._deferred.get(channel, {}).values())

    def doubtful(self, channel: str) -> list[Range]:
        """Messages that a channel may still owe because of missing records.

        Messages that it is known to owe are left out.
        """
        doubts, record = self._doubts.get(channel), self.channels[channel]
        if doubts is None:
            return []
        owed = RangeSet()
        low = record.cursor
        for first, next_ in record.skips:  # deferred, perhaps by a record that is missing
            owed.add(low, first)
            low = max(low, next_)
        owed.add(low, record.head)
        for first, next_, _ in record.unfinished:
            owed.add(first, next_)
        for _, first, next_, _ in self.deferred(channel):
            owed.add(first, next_)
        return [found for first, next_ in doubts for found in missing(owed, first, next_)]

    def _pass_gap(self) -> None:
        self._gaps += 1
        self.deleted.clear()  # a record that is missing may have made a channel of that name

    def _apply(self, record: Record) -> None:
        match record:
            case ChannelRecord():
                self._apply_channel(record)
            case GroupRecord():
                self.groups[record.name] = record.offset
                self.group_ages[record.name] = record.age_s
            case TopicRecord():
                self.head = record.head
                self.paused = record.paused
            case WriterRecord():
                self.writers.append(record)
            case WritersRecord():
                self.writers_end = record.end
            case ChannelSettings():
                self.channel_settings[record.name] = record
            case TopicSettings():
                self.settings = record
            case ClockRecord():
                self.clock = record
            case _:
                self._forget(record)

    def _forget(self, gone: GoneRecord) -> None:
        # No channel or group is named "", so that half of the record changes nothing.
        self.deleted.add(gone.channel or "")
        self.channel_settings.pop(gone.channel or "", None)
        self.channels.pop(gone.channel or "", None)
        self._deferred.pop(gone.channel or "", None)
        self.groups.pop(gone.group or "", None)
        self.group_ages.pop(gone.group or "", None)

    def _apply_channel(self, record: ChannelRecord) -> None:
        # First, as it compares with the record before.
        self._doubt(record)
        self.channels[record.name] = record
        deferred = self._deferred.setdefault(record.name, {})
        if record.reset:
            deferred.clear()
        for first in record.undeferred:
            deferred.pop(first, None)
        for deferral in record.deferred:
            deferred[deferral[1]] = deferral

    def _doubt(self, record: ChannelRecord) -> None:
        """Note which messages may be deferred although this record shows them as done.

        A record that is missing before this one may have deferred them. Only a reset states all.
        """
        before = self.channels.get(record.name)
        seen, self._gaps_seen[record.name] = self._gaps_seen.get(record.name, 0), self._gaps
        is_next = before is not None and record.serial == before.serial + 1
        if record.reset:
            self._doubts.pop(record.name, None)
        # Earlier versions wrote no serial: then any gap since the record before is a doubt.
        elif self._gaps and not (is_next if record.serial else seen == self._gaps):
            doubts = self._doubts.setdefault(record.name, RangeSet())
            doubts.add(before.cursor if before else 0, record.head)
            for first, next_, _ in before.unfinished if before else ():
                doubts.add(first, next_)
