"""The answers of a primary to its followers, made of its logs and of what a follower has.

Nothing is kept of a follower, so any number of them costs a primary no memory between their
requests, and an answer is bounded by what the request asks for. Whatever refers to a log is read
before the log, as backups do it: a follower never has the progress of a channel over messages that
it is not sent with it or was sent before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from penstock.replication.messages import (
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


class Source:
    """The answers of one run of a primary.

    ``served`` gives the topics as they are now, ``files`` the small files, not newer than these.
    """

    def __init__(
        self,
        served: Callable[[], Iterable[CopiedTopic]],
        files: Callable[[], Mapping[str, bytes]],
        hello: Hello,
        acked: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        """``acked`` gives ``End.acked`` and ``End.copies``."""
        self._served = served
        self._files = files
        self._hello = hello
        self._acked = acked

    def answer(self, fetch: Fetch, waited_ns: int = 0) -> list[Buffer]:
        """The pieces of the answer to a request that came ``waited_ns`` ago. Raises
        StorageError.
        """
        # Positions in journals and checked ends were those of another run: it compares all first.
        if fetch.run != self._hello.run:
            return [
                *encode_part(self._hello),
                *encode_part(End(self._hello.run, fetch.number, more=True)),
            ]
        acked, copies = self._acked()
        end = End(fetch.run, fetch.number, more=False, waited_ns=waited_ns, acked=acked,
                  copies=copies)  # fmt: skip
        return _Answer(fetch, end).of(self._files(), self._served())

    def copied(self, fetch: Fetch) -> dict[tuple[str, int], int]:
        """The ends of what the follower keeps, by topic and log, of logs that go on from there."""
        if fetch.run != self._hello.run:
            return {}
        held = {(each.topic, each.log): each for each in fetch.held}
        found = {}
        for served in self._served():
            place = served.name, served.log.id_base
            known = held.get(place)
            if known is not None and _continues(known, served.log):
                found[place] = known.kept
        return found

    def has_news(self, fetch: Fetch) -> bool:
        """True if an answer would hold anything; quick, as it is asked again and again."""
        if fetch.run != self._hello.run:
            return True
        held = {each.topic: each for each in fetch.held}
        count = 0
        for served in self._served():
            known = held.get(served.name)
            if known is None or known.mark or _is_news(served, known):
                return True
            count += 1
        return count != len(held) or any(_changed(fetch, self._files()))


def _is_news(served: CopiedTopic, follower: FollowerTopic) -> bool:
    if follower.log != served.log.id_base or follower.next != served.log.copies_end:
        return True
    return follower.position >= 0 and _place(served.journal) != (follower.token, follower.position)


def _place(journal: Journal) -> tuple[str, int]:
    return str(journal.rewrites), journal.size


def _changed(fetch: Fetch, files: Mapping[str, bytes]) -> Iterable[str]:
    """The names of the small files that the follower has not, as they are."""
    if fetch.files is None:
        return
    for name, data in files.items():
        if fetch.files.get(name) != xxh3_64_intdigest(data):
            yield name


class _Answer:
    """One answer, as it grows."""

    def __init__(self, fetch: Fetch, end: End) -> None:
        self._fetch = fetch
        self._end = end
        self._pieces: list[Buffer] = []
        self._room = min(max(fetch.nbytes, 1), NBYTES_MAX)
        self._more = False

    def of(self, files: Mapping[str, bytes], served: Iterable[CopiedTopic]) -> list[Buffer]:
        for name in _changed(self._fetch, files):
            # Not of the room: were they larger, nothing else would ever come.
            self._pieces += encode_part(File(name), files[name])
        held = {each.topic: each for each in self._fetch.held}
        served = list(served)
        self._gone(held.keys() - {each.name for each in served}, held)
        for each in served:
            self._topic(each, held.get(each.name))
        self._pieces += encode_part(msgspec.structs.replace(self._end, more=self._more))
        return self._pieces

    def _gone(self, names: Iterable[str], held: Mapping[str, FollowerTopic]) -> None:
        for name in sorted(names):
            if self._room <= 0:
                self._more = True
                break
            self._add(Gone(name, held[name].log))

    def _add(self, head: Head, *data: Buffer) -> None:
        pieces = encode_part(head, *data)
        self._room -= sum(map(len, pieces))
        self._pieces += pieces

    def _topic(self, served: CopiedTopic, follower: FollowerTopic | None) -> None:
        log = served.log
        if follower is not None and follower.log != log.id_base:
            self._add(Gone(follower.topic, follower.log))
            follower = None
        if follower is not None and not _continues(follower, log):
            self._add(Diverged(follower.topic, follower.log, log.copies_end))
            self._more = True
            return
        if self._room <= 0:
            self._more = self._more or follower is None or _is_news(served, follower)
            return
        if follower is None:
            follower = FollowerTopic(served.name, log.id_base, log.start_offset, 0, "", 0)
            self._batches(served, follower, is_new=True)
            self._more = True  # its journal comes when the follower has laid the topic down
            return
        self._journal(served, follower)
        if self._room > 0:
            self._batches(served, follower, is_new=False)
        else:
            self._more = True

    def _journal(self, served: CopiedTopic, follower: FollowerTopic) -> None:
        journal = served.journal
        token, size = _place(journal)
        is_wanted = follower.position >= 0 and (follower.token, follower.position) != (token, size)
        if not is_wanted or not journal.is_named:
            return
        position = follower.position if follower.token == token and follower.position <= size else 0
        frames = journal.frames_from(position, self._room)
        left = size - position - len(frames)
        self._more = self._more or left > 0
        self._add(JournalPiece(follower.topic, follower.log, token, position, left), frames)

    def _batches(self, served: CopiedTopic, follower: FollowerTopic, *, is_new: bool) -> None:
        log, queues = served.log, served.queues
        start, end = log.start_offset, log.copies_end
        first = max(follower.next, start)
        if first == end and not is_new and follower.next >= start:
            return
        raw = log.read_raw(first, self._room, for_copy=True)
        left = max(0, log.bytes_from(first) - sum(map(len, raw)))
        firsts = queues.firsts if queues is not None and first == start else None
        self._add(Batches(follower.topic, follower.log, start, end, left, firsts), *raw)
        # Not told by the room, which the next batch may be too large for.
        self._more = self._more or (bool(raw) and _end_of(raw[-1]) < end)


def _end_of(batch: Buffer) -> int:
    return Batch.parse(batch, verify=False).next_offset


def _continues(follower: FollowerTopic, log: Log) -> bool:
    """True if the log goes on where the follower's ends."""
    if follower.next > log.copies_end:
        return False
    if not follower.mark or follower.next <= log.start_offset:
        return True  # there is nothing left to compare
    last = log.last_of(follower.next)
    # None: it is lost on this side, so what else stood here cannot be told.
    return last is not None and last.checksum == follower.mark
