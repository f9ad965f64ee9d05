"""The answers of a primary to its followers, made of its logs and of what each was sent.

A ``Feed`` begins with the follower's request and counts each answer as taken; a follower that
cannot take one asks again. It keeps a place for each topic, and an answer is bounded by its room.
Whatever refers to a log is read before the log, as backups do it: a follower never has the progress
of a channel over messages that it is not sent with it or was sent before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from penstock.node.followers import Place
from penstock.replication.messages import (
    Ack,
    Batches,
    Diverged,
    End,
    Fetch,
    File,
    FollowerTopic,
    Gone,
    Head,
    Hello,
    JournalPiece,
    ReplicationError,
    encode_part,
)
from penstock.storage.batch import Batch, Buffer
from penstock.storage.compiled import xxh3_64_intdigest
from penstock.storage.journal import Journal
from penstock.storage.log import Log
from penstock.storage.queues.one_queue import Queues

NBYTES_MAX: Final = 4 * 1024 * 1024
"""The room of an answer. Only the small files, and the last batch or frame, may exceed it."""


class CopiedTopic(NamedTuple):
    """A topic that is copied."""

    name: str
    log: Log
    journal: Journal
    queues: Queues | None = None


class Source(NamedTuple):
    """The topics and files of one run of a primary, for its followers."""

    served: Callable[[], Iterable[CopiedTopic]]
    """The topics as they are now."""
    files: Callable[[], Mapping[str, bytes]]
    """The small files, not newer than these."""
    hello: Hello
    acked: Callable[[], tuple[int, int]] = lambda: (0, 0)
    """``End.acked`` and ``End.copies``."""


class Feed:
    """The answers to one follower, each from the end of the one before."""

    def __init__(self, source: Source, fetch: Fetch) -> None:
        self._source = source
        self._run = fetch.run
        self._number = fetch.number
        self._room = min(max(fetch.nbytes, 1), NBYTES_MAX)
        self._held = {each.topic: _Sent.of(each) for each in fetch.held}
        self._files = dict(fetch.files)
        self.more = True
        """True if there was no room for all in the last answer."""
        self.ends: dict[Place, int] = {}
        """The ends of what the follower keeps, by its last word."""
        if self.is_known:
            self.ends = self._continued(fetch.held)

    def _continued(self, held: Iterable[FollowerTopic]) -> dict[Place, int]:
        kept = {(each.topic, each.log): each.kept for each in held}
        return {
            place: kept[place]
            for served in self._source.served()
            if (place := (served.name, served.log.id_base)) in kept
            and _continues(self._held[served.name], served.log)
        }

    @property
    def is_known(self) -> bool:
        """True if the follower knows this run; else the first answer, a Hello, is the last."""
        return self._run == self._source.hello.run

    @property
    def number(self) -> int:
        """The number of the follower's last word."""
        return self._number

    def acknowledge(self, ack: Ack) -> None:
        """Take the follower's word. Raises ReplicationError for one out of turn."""
        if ack.number != self._number + 1:
            raise ReplicationError(f"acknowledgement {ack.number} behind {self._number}")
        self._number = ack.number
        for name, (log, end) in ack.kept.items():
            self.ends[name, log] = end
        if len(self.ends) > len(self._held):  # of topics that are gone
            held = ((name, each.log) for name, each in self._held.items())
            self.ends = {place: self.ends[place] for place in held if place in self.ends}

    def unsent(self) -> tuple[int, int]:
        """The messages that were ever published here, and the bytes that are still to be sent."""
        head = nbytes = 0
        for served in self._source.served():
            log, sent = served.log, self._held.get(served.name)
            head += log.next_offset
            nbytes += log.bytes_from(max(log.start_offset, sent.next if sent is not None else 0))
        return head, nbytes

    def has_news(self) -> bool:
        """True if an answer would hold anything; quick, as it is asked again and again."""
        if not self.is_known:
            return True
        count = 0
        for served in self._source.served():
            sent = self._held.get(served.name)
            if sent is None or sent.mark or _is_news(served, sent):
                return True
            count += 1
        return count != len(self._held) or any(_changed(self._files, self._source.files()))

    def answer(self, waited_ns: int = 0, nbytes: int = NBYTES_MAX) -> list[Buffer]:
        """The pieces of the next answer, of about ``nbytes`` or what was asked for, made
        ``waited_ns`` after the follower's last word. Raises StorageError.
        """
        source = self._source
        # Positions in journals and checked ends were those of another run: it compares all first.
        if not self.is_known:
            end = End(source.hello.run, self._number, more=True)
            return [*encode_part(source.hello), *encode_part(end)]
        acked, copies = source.acked()
        answer = _Answer(self._held, self._files, min(self._room, nbytes))
        answer.add(source.files(), list(source.served()))
        self.more = answer.more
        end = End(self._run, self._number, answer.more, waited_ns, acked, copies)
        return [*answer.pieces, *encode_part(end)]


class _Sent(msgspec.Struct):
    """A topic as a follower has it once all has come that it was sent."""

    log: int
    next: int
    mark: int
    token: str
    position: int
    refers_to: int = 0
    """The end of the log at most that the journal up to ``position`` refers to."""

    @classmethod
    def of(cls, held: FollowerTopic) -> _Sent:
        return cls(held.log, held.next, held.mark, held.token, held.position)


def _is_news(served: CopiedTopic, sent: _Sent) -> bool:
    is_same = sent.log == served.log.id_base and sent.next == served.log.copies_end
    return not is_same or _has_records(served.journal, sent)


def _has_records(journal: Journal, sent: _Sent) -> bool:
    """True if there are records that the follower has not, and can use."""
    # What was sent waits there for messages: none newer is of use before those are sent too.
    is_of_use = sent.next >= sent.refers_to and journal.is_named
    return is_of_use and _place(journal) != (sent.token, sent.position)


def _place(journal: Journal) -> tuple[str, int]:
    return str(journal.rewrites), journal.size


def _changed(sent: Mapping[str, int], files: Mapping[str, bytes]) -> Iterable[str]:
    """The names of the small files that the follower has not, as they are."""
    for name, data in files.items():
        if sent.get(name) != xxh3_64_intdigest(data):
            yield name


class _Answer:
    """One answer, as it grows; it notes in ``held`` and ``files`` what it sends."""

    def __init__(self, held: dict[str, _Sent], files: dict[str, int], room: int) -> None:
        self.pieces: list[Buffer] = []
        self.more = False
        self._held = held
        self._files = files
        self._room = room

    def add(self, files: Mapping[str, bytes], served: list[CopiedTopic]) -> None:
        """Add all that the follower has not, as long as there is room."""
        for name in list(_changed(self._files, files)):
            # Not of the room: were they larger, nothing else would ever come.
            self.pieces += encode_part(File(name), files[name])
            self._files[name] = xxh3_64_intdigest(files[name])
        self._gone(self._held.keys() - {each.name for each in served})
        for each in served:
            self._topic(each)

    def _gone(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            if self._room <= 0:
                self.more = True
                break
            self._add(Gone(name, self._held.pop(name).log))

    def _add(self, head: Head, *data: Buffer) -> None:
        pieces = encode_part(head, *data)
        self._room -= sum(map(len, pieces))
        self.pieces += pieces

    def _topic(self, served: CopiedTopic) -> None:
        log, sent = served.log, self._held.get(served.name)
        if sent is not None and sent.log != log.id_base:
            self._add(Gone(served.name, self._held.pop(served.name).log))
            sent = None
        if sent is not None and not _continues(sent, log):
            self._add(Diverged(served.name, self._held.pop(served.name).log, log.copies_end))
            self.more = True
            return
        if sent is not None:
            sent.mark = 0  # the logs cannot part while both go on
        if self._room <= 0:
            self.more = self.more or sent is None or _is_news(served, sent)
            return
        if sent is None:
            sent = self._held[served.name] = _Sent(log.id_base, log.start_offset, 0, "", 0)
            self._batches(served, sent, is_new=True)
            self.more = True  # its journal comes when the follower has laid the topic down
            return
        self._journal(served, sent)
        if self._room > 0:
            self._batches(served, sent, is_new=False)
        else:
            self.more = True

    def _journal(self, served: CopiedTopic, sent: _Sent) -> None:
        journal = served.journal
        token, size = _place(journal)
        if not _has_records(journal, sent):
            return
        goes_on = sent.token == token and 0 <= sent.position <= size
        position = sent.position if goes_on else 0
        frames = journal.frames_from(position, self._room)
        end = position + len(frames)
        self.more = self.more or end < size
        self._add(JournalPiece(served.name, sent.log, token, position, size - end), frames)
        sent.token, sent.position = token, end
        sent.refers_to = served.log.copies_end if end == size else 0

    def _batches(self, served: CopiedTopic, sent: _Sent, *, is_new: bool) -> None:
        log, queues = served.log, served.queues
        start, end = log.start_offset, log.copies_end
        is_overtaken = sent.next < start
        first = max(sent.next, start)
        if first == end and not is_new and not is_overtaken:
            return
        raw = log.read_raw(first, self._room, for_copy=True)
        # Not told by the room, which the next batch may be too large for.
        sent.next = _end_of(raw[-1]) if raw else end
        is_rest = sent.next < end
        left = max(0, log.bytes_from(first) - sum(map(len, raw))) if is_rest else 0
        firsts = queues.firsts if queues is not None and first == start else None
        self._add(Batches(served.name, sent.log, start, end, left, firsts), *raw)
        self.more = self.more or is_rest
        if is_overtaken:  # the follower begins the topic again, and has no journal of it
            sent.token, sent.position, sent.refers_to = "", 0, 0
            self.more = True


def _end_of(batch: Buffer) -> int:
    return Batch.parse(batch, verify=False).next_offset


def _continues(sent: _Sent, log: Log) -> bool:
    """True if the log goes on where the follower's ends."""
    if sent.next > log.copies_end:
        return False
    if not sent.mark or sent.next <= log.start_offset:
        return True  # there is nothing left to compare
    last = log.last_of(sent.next)
    # None: it is lost on this side, so what else stood here cannot be told.
    return last is not None and last.checksum == sent.mark
