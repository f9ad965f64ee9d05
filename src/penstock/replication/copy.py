"""The follower's side: a data path that becomes, and stays, a copy of the primary's.

``request`` says what is here, ``take`` takes an answer to it, and ``acknowledge`` says what has
come. Each part says which log it is of and where it belongs, and whatever does not continue what is
here is left out or refused. No byte enters a log without a right checksum.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable
from typing import Final

from penstock.broker.dialects import queue_offset
from penstock.core.errors import StorageError
from penstock.replication.feed import CopiedTopic
from penstock.replication.messages import (
    VERSION,
    Ack,
    Batches,
    Diverged,
    End,
    Fetch,
    File,
    Gone,
    Head,
    Hello,
    JournalPiece,
    Part,
    ReplicationError,
    decode_parts,
)
from penstock.replication.topic_copy import TopicCopy
from penstock.storage.batch import Buffer
from penstock.storage.compiled import xxh3_64_intdigest
from penstock.storage.durability import Durability
from penstock.storage.epochs import EPOCHS_FILE
from penstock.storage.queues.one_queue import Queues
from penstock.storage.store import Store

logger = logging.getLogger("penstock.replication")

_TOPIC_LIST: Final = "nsqd.dat"
FILES: Final = (_TOPIC_LIST, "ids.json", EPOCHS_FILE, "rocketmq-serials.json")
"""Small files of a data path that are copied."""
TABLES: Final = "config"
"""The folder of RocketMQ's tables, which are copied too."""
_TABLE: Final = re.compile(r"[A-Za-z]{1,64}\.json")
ASIDE: Final = "aside"
"""The folder of the data path for logs that are not the primary's: a data path for each."""


def small_files(store: Store) -> dict[str, bytes]:
    """The content of the small files that are there, by name. Raises StorageError."""
    tables = store.disk.list(os.path.join(store.data_path, TABLES))
    names = [*FILES, *(f"{TABLES}/{name}" for name in tables)]
    found = {name: store.read_file(name) for name in names if _is_copied(name)}
    return {name: data for name, data in found.items() if data is not None}


def _is_copied(name: str) -> bool:
    """True for the names that are taken from a primary; all others are this node's own."""
    folder, slash, table = name.rpartition("/")
    if slash:
        return folder == TABLES and _TABLE.fullmatch(table) is not None
    return name in FILES


class Copy:
    """The topics of a data path as copies of a primary's; takes over the store, to be closed."""

    def __init__(self, store: Store, *, never_drop: bool = False, moment: str = "0") -> None:
        """``moment`` is a name for what is put aside now. Raises StorageError."""
        self.store = store
        self.topics: dict[str, TopicCopy] = {}
        self.put_aside: dict[str, int] = {}
        """Messages that only this node had, by topic, moved to ``ASIDE`` since the start."""
        self.is_whole = False
        """True if the last answer was all there was, and is here."""
        self.is_retaking = False
        """True while a topic that was damaged or dropped here is to be copied again."""
        self.never_drop = never_drop
        """True while what the primary has not is put aside, or ``refuse_foreign`` refuses it."""
        self.refuse_foreign = False
        self.fork: dict[str, tuple[int, int]] = {}
        """The start of the primary's epoch by topic: the log, and the offset of its end."""
        self.moment = moment
        self._damaged: list[TopicCopy] = []
        self._run = ""
        self.last_end = End("", 0, more=False)
        """The end of the last answer that was taken."""
        self._number = self._asked = 0
        """The numbers of the last word to the primary, and of the last request."""
        self._said: dict[str, tuple[int, int]] = {}
        """The logs and their ends as they were last said."""
        self._is_all = False
        self.is_astray = False
        """True if the next answer does not go on from what is here: ask again."""
        self.leaving: list[Callable[[str], None]] = []
        """Told the name of a topic whose files are about to go."""
        self.changed_files: set[str] = set()
        """Names of small files that were replaced, for the one who reads them to clear."""
        self._files = {name: xxh3_64_intdigest(data) for name, data in small_files(store).items()}
        self._new_files: dict[str, bytes] = {}
        self._files_are_due = False
        for topic, queue in store.queues():
            if queue == 0:
                self._open(topic)

    def _open(self, name: str) -> None:
        """Open the copy of a topic; one with damage stays until it can be copied again."""
        log, journal, _ = self.store.open_queue(name, 0, 0, is_copy=True)

        def open_queues(firsts: dict[int, int] | None) -> Queues:
            several = firsts is not None
            return self.store.open_queues(name, log, queue_offset, several=several, firsts=firsts)

        copy = self.topics[name] = TopicCopy(name, log, journal, open_queues)
        if copy.fault is not None:
            self._damaged.append(copy)
            self.is_retaking = True
            logger.error("TOPIC(%s): the copy is damaged: %s", name, copy.fault)

    # --- asking --------------------------------------------------------------------------------

    def request(self, history: str, epoch: int, nbytes: int, address: str = "") -> Fetch:
        """The request to a primary of this history and epoch: all that is here."""
        held = [copy.held() for copy in self.topics.values()]
        self._said = {each.topic: (each.log, each.kept) for each in held}
        self.is_astray = False
        new = {name: xxh3_64_intdigest(data) for name, data in self._new_files.items()}
        # Answers carry it, so that one which comes late is known and refused.
        self._number = self._asked = self._number + 1
        is_synced = self.store.options.durability is Durability.FSYNC
        return Fetch(VERSION, self._number, history, epoch, self._run, held, self._files | new,
                     nbytes, address, is_synced)  # fmt: skip

    def acknowledge(self) -> Ack:
        """The word that an answer is here; with each answer once."""
        kept = {}
        for name, copy in self.topics.items():
            place = copy.log.id_base, copy.log.next_offset
            if self._said.get(name) != place:
                self._said[name] = kept[name] = place
        if len(self._said) > len(self.topics):
            self._said = {name: self._said[name] for name in self.topics}
        self._number += 1
        return Ack(self._number, kept)

    def begin_run(self, hello: Hello) -> None:
        """Follow another run of the primary: all that is here is compared again. Raises
        StorageError.
        """
        self.fork = dict(hello.fork)
        if not self.refuse_foreign:
            self._drop_damaged()
        self._run = hello.run
        self.is_whole = self._is_all = False
        self._new_files.clear()
        for copy in self.topics.values():
            copy.cancel_commit()
            copy.new_run()

    def _drop_damaged(self) -> bool:
        """Have topics that were found damaged copied again; True if there were any."""
        damaged = [copy for copy in self._damaged if self.topics.get(copy.name) is copy]
        for copy in damaged:
            logger.error("TOPIC(%s): the damaged copy is taken again", copy.name)
            if self.never_drop:
                self._aside(copy, copy.log.next_offset)
            else:
                self._remove(copy)
        self._damaged.clear()
        return bool(damaged)

    # --- taking --------------------------------------------------------------------------------

    def take(self, answer: Buffer) -> Hello | None:
        """Take an answer; a Hello if the primary is another run, with which the caller decides.

        Raises ReplicationError for an answer that cannot be used, StorageError when the disk fails;
        what was taken before that stays.
        """
        parts = list(decode_parts(answer))
        hello, end = parts[0].head, parts[-1].head
        assert isinstance(end, End), "decode_parts sees to that"
        is_hello = isinstance(hello, Hello)
        is_late = not self._asked <= end.number <= self._number
        if is_late or not (is_hello or end.run == self._run):
            raise ReplicationError("an answer to an earlier request")
        if isinstance(hello, Hello):
            return hello
        self.last_end = end
        if self.refuse_foreign:
            self._check_foreign(parts)
            if self._drop_damaged():
                self.is_astray = True  # the answer is for what was there
                return None
        unlike: set[str] = set()
        self.is_whole = False
        for part in parts:
            self._take(part, unlike)
        for name, copy in self.topics.items():
            # No ``Diverged`` came for it, so its end continues the primary's.
            copy.is_checked = copy.is_checked or name not in unlike
        self._is_all = not end.more
        self._files_are_due = self._files_are_due or not end.more
        self.settle()
        return None

    def _check_foreign(self, parts: Iterable[Part]) -> None:
        foreign = sorted(
            {each.head.topic for each in parts if isinstance(each.head, Gone | Diverged)}
        )
        if foreign and not any(self._goes_on(each.head) for each in parts):
            raise ReplicationError(
                f"the data path {self.store.data_path} has messages that the primary has not, of "
                f"{len(foreign)} topics, such as {foreign[0]}: give an empty data path, or one "
                "restored from a backup of the primary"
            )
        self.refuse_foreign = False

    def _goes_on(self, head: Head) -> bool:
        """True if the primary's log of a topic goes on where one ends that has messages here."""
        if not isinstance(head, JournalPiece | Batches):
            return False
        copy = self._known(head.topic, head.log)
        return copy is not None and copy.log.append_offset > copy.log.start_offset

    def _take(self, part: Part, unlike: set[str]) -> None:
        match part.head:
            case File(name):
                if _is_copied(name):
                    self._new_files[name] = bytes(part.data)
                    self._files_are_due = False
            case Gone(topic, log):
                if (copy := self._known(topic, log)) is not None:
                    self._gone(copy)
            case Diverged(topic, log, end):
                unlike.add(topic)
                if (copy := self._known(topic, log)) is not None:
                    self._aside(copy, end)
            case JournalPiece(topic, log):
                if (copy := self._known(topic, log)) is not None:
                    copy.take_records(part.head, part.data)
            case Batches(topic, log):
                self._extend(part.head, part.data)
            case _:
                pass

    def _known(self, topic: str, log: int) -> TopicCopy | None:
        copy = self.topics.get(topic)
        return copy if copy is not None and copy.log.id_base == log else None

    def _extend(self, head: Batches, data: Buffer) -> None:
        copy = self._known(head.topic, head.log)
        if copy is None:
            if head.topic in self.topics:
                return  # of a log that is not here any more
            copy = self._begin(head)
        elif head.start > copy.next:
            # All that is here was consumed and deleted there.
            self._remove(copy)
            copy = self._begin(head)
        copy.append(head, data)
        copy.trim(head.start)

    def _begin(self, head: Batches) -> TopicCopy:
        # It becomes the name of a folder.
        if not head.topic or {os.sep, "\0"} & set(head.topic):
            raise ReplicationError(f"no name of a topic: {head.topic!r}")
        self.store.begin_queue(head.topic, 0, head.log, head.start)
        self._open(head.topic)
        copy = self.topics[head.topic]
        copy.is_from_primary = True
        return copy

    def settle(self) -> None:
        """Write down what has waited for messages, and note whether all is here.

        After ``take``, and again after a sync that has made messages visible. Raises StorageError.
        """
        for copy in self.topics.values():
            copy.settle()
            copy.index()
        is_waiting = any(copy.is_waiting for copy in self.topics.values())
        behind = any(copy.messages_behind for copy in self.topics.values())
        if self._files_are_due and not is_waiting and not behind:
            self._replace_files()
        self.is_whole = self._is_all and not (is_waiting or behind or self._new_files)
        self.is_retaking = self.is_retaking and not self.is_whole

    def _replace_files(self) -> None:
        """Write down the small files, which refer to no message that is not here.

        The journals have the channels that nsqd.dat names. After a power cut, too: one that is not
        there would pass for damage.
        """
        if _TOPIC_LIST in self._new_files:
            for copy in self.topics.values():
                copy.sync_records()
        for name, data in self._new_files.items():
            if name.startswith(TABLES):
                self.store.disk.make_directory(os.path.join(self.store.data_path, TABLES))
            self.store.replace_file(name, data)
            self._files[name] = xxh3_64_intdigest(data)
            self.changed_files.add(name)
            if name == EPOCHS_FILE:
                self.store.epochs.load()
        self._new_files.clear()

    # --- what the primary has not --------------------------------------------------------------

    def _gone(self, copy: TopicCopy) -> None:
        if self.never_drop and not copy.is_from_primary:
            self._aside(copy, copy.log.start_offset)
        else:
            self._remove(copy)
            logger.info("TOPIC(%s): deleted, as the primary has done", copy.name)

    def _aside(self, copy: TopicCopy, end: int) -> None:
        """Put a log aside that is not the primary's; it is copied from the start then."""
        log, forked = self.fork.get(copy.name, (0, 0))
        log_end = copy.log.next_offset
        begin = forked if log == copy.log.id_base else min(end, log_end)
        count = max(0, log_end - max(begin, copy.log.start_offset))
        # Readers first: whoever shows its messages must not see the files go.
        self._leave(copy)
        self.is_retaking = True
        copy.close()
        folder = self.store.put_aside(copy.name, 0, os.path.join(ASIDE, self.moment))
        told = ""
        if count:
            self.put_aside[copy.name] = self.put_aside.get(copy.name, 0) + count
            told = f"this node has messages that the primary has not, {count} at least; "
        logger.error(
            "TOPIC(%s): %sits log is now in %s/%s, a data path for nsqd, and is copied again",
            copy.name,
            told,
            self.store.data_path,
            folder,
        )

    def _leave(self, copy: TopicCopy) -> None:
        self.topics.pop(copy.name, None)
        for listener in self.leaving:
            listener(copy.name)

    def _remove(self, copy: TopicCopy) -> None:
        self._leave(copy)
        copy.cancel_commit()
        copy.close_queues()
        copy.journal.close()
        copy.log.delete()

    # --- figures, and the end ------------------------------------------------------------------

    @property
    def messages_behind(self) -> int:
        return sum(copy.messages_behind for copy in self.topics.values())

    @property
    def behind(self) -> dict[str, int]:
        """Messages that are known not to be here, by topic."""
        return {
            name: copy.messages_behind for name, copy in self.topics.items() if copy.messages_behind
        }

    @property
    def nbytes_behind(self) -> int:
        return sum(copy.nbytes_behind for copy in self.topics.values())

    @property
    def ends(self) -> dict[str, tuple[int, int]]:
        """The log and its end, by topic: where a new epoch begins."""
        return {
            name: (copy.log.id_base, copy.log.next_offset) for name, copy in self.topics.items()
        }

    def served(self) -> Iterable[CopiedTopic]:
        """The copies as another node may copy them."""
        return (
            CopiedTopic(copy.name, copy.log, copy.journal, copy.queues)
            for copy in self.topics.values()
        )

    def sync(self) -> None:
        """Sync all that was not, here and now. Raises StorageError."""
        for copy in self.topics.values():
            if copy.log.unsynced_messages:
                copy.sync()

    def close(self) -> None:
        """Sync and close everything. Raises the first StorageError at the end."""
        first: StorageError | None = None
        for copy in self.topics.values():
            try:
                copy.close()
            except StorageError as error:
                logger.error("TOPIC(%s): failed to close - %s", copy.name, error)
                first = first or error
        self.store.close()
        if first is not None:
            raise first
