"""The record of a queue's damaged or missing data, kept until an operator accepts the damage.

Recovery and the cursor journal report their findings here. The record is in ``damage.json`` beside
the queue's files, so that a restart does not end the alarm: while any damage is pending, the topic
deletes nothing and the node is unhealthy. Damaged bytes are copied to ``quarantine/`` before
anything is truncated. Lost offsets stay on record after they are accepted; otherwise each start
would report the same gap again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Final

import msgspec

from penstock.core.errors import StorageError
from penstock.core.malformed import MALFORMED
from penstock.storage.files.disk import Disk
from penstock.storage.files.versions import check_version

logger = logging.getLogger(__name__)

DAMAGES_MAX: Final = 1000
"""The most entries of one queue; further damage is added to the last entry."""
# Each crash may leave a torn tail: one that comes again and again must not fill the disk.
TORN_COPIES_MAX: Final = 16
_FILE: Final = "damage.json"
QUARANTINE: Final = "quarantine"
_TORN: Final = ".torn"
_FORMAT: Final = 1


class Damage(msgspec.Struct, frozen=True):
    """One damaged place in one file; ``copy`` names its copy in ``quarantine/``, if there is one.

    The messages from offset ``first`` up to, but not including, ``next`` are lost.
    """

    file: str
    what: str
    position: int = 0
    nbytes: int = 0
    first: int = 0
    next: int = 0
    copy: str = ""

    @property
    def messages(self) -> int:
        """Number of messages lost."""
        return self.next - self.first

    def __str__(self) -> str:
        place = f" at bytes {self.position} to {self.position + self.nbytes}" if self.nbytes else ""
        text = f"{self.file}{place}: {self.what}"
        if self.messages == 1:
            text += f"; 1 message is lost, offset {self.first}"
        elif self.messages:
            text += f"; {self.messages} messages are lost, offsets {self.first} to {self.next - 1}"
        return text + (f"; copied to {QUARANTINE}/{self.copy}" if self.copy else "")


class _Recorded(msgspec.Struct):
    """The content of the file; ``known`` is damage that needs no operator: accepted, or no loss."""

    pending: list[Damage] = []
    known: list[Damage] = []
    lost_messages: int = 0
    version: int = _FORMAT


def record_path(directory: str) -> str:
    """The file with the record of the queue that has this directory."""
    return os.path.join(directory, _FILE)


class DamageRecord:
    """The damage of the queue in ``directory``; a log in memory has no disk and no damage."""

    def __init__(self, disk: Disk | None = None, directory: str = "") -> None:
        self._disk = disk
        self._directory = directory
        self._recorded = _Recorded()
        self._changed = False
        data = disk.read_file(self._path) if disk is not None else None
        if data is None:
            return
        try:
            self._recorded = msgspec.json.decode(data, type=_Recorded)
            check_version(self._path, self._recorded.version, _FORMAT)
        except MALFORMED as error:
            self.report(Damage(_FILE, f"{error}: earlier damage is forgotten"), data)

    @property
    def pending(self) -> list[Damage]:
        """Damage that no operator has accepted yet."""
        return self._recorded.pending

    @property
    def known(self) -> list[Damage]:
        """Damage that needs no operator: accepted, or no loss."""
        return self._recorded.known

    @property
    def lost_messages(self) -> int:
        """Number of messages lost to damage since the queue was created."""
        return self._recorded.lost_messages

    def lost_ranges(self) -> Iterator[tuple[int, int]]:
        """The offsets that are known to be lost."""
        return ((each.first, each.next) for each in self._all())

    def _all(self) -> tuple[Damage, ...]:
        return (*self._recorded.pending, *self._recorded.known)

    @property
    def _path(self) -> str:
        return record_path(self._directory)

    def report(self, damage: Damage, data: bytes = b"", *, is_loss: bool = True) -> None:
        """Record damage that is not on record yet, with a copy of its bytes.

        With ``is_loss`` it is pending until accepted; without, it is only counted: a power cut may
        take messages that were never synced.
        """
        if self._knows(damage):
            return
        # Zeros tell nothing, and a block that a disk has lost is all zeros.
        if data.strip(b"\0"):
            name = f"{damage.file}-{damage.position}.bad"
            damage = msgspec.structs.replace(damage, copy=self._copy(name, data))
        logger.error("%s/%s", self._directory, damage)
        recorded = self._recorded
        recorded.lost_messages += damage.messages
        _add(recorded.pending if is_loss else recorded.known, damage)
        self._changed = True
        try:
            self.save()
        # It is pending all the same, and written down with the next change.
        except StorageError as error:
            logger.error("cannot write down the damage - %s", error)

    def _knows(self, damage: Damage) -> bool:
        if damage.messages:
            return any(
                first <= damage.first and damage.next <= next_
                for first, next_ in self.lost_ranges()
            )
        return _place(damage) in map(_place, self._all())

    def keep_torn(self, file: str, position: int, data: bytes, what: str = "a torn tail") -> bool:
        """Copy the torn tail of a file before it is cut off; True if the tail may now be cut."""
        data = data.rstrip(b"\0")
        if not data:
            return True
        copy = self._copy(f"{file}-{position}{_TORN}", data)
        logger.warning("%s/%s: %s of %d bytes from byte %d on; %s", self._directory, file, what,
                       len(data), position, f"copied to {QUARANTINE}/{copy} and cut off"
                       if copy else "left there, as it cannot be copied")  # fmt: skip
        return bool(copy)

    def _copy(self, name: str, data: bytes) -> str:
        """Copy bytes to the quarantine; returns the name of the copy, empty if it failed."""
        if self._disk is None:
            return ""
        directory = os.path.join(self._directory, QUARANTINE)
        try:
            self._disk.make_directory(directory)
            names = self._disk.list(directory)
            if name.endswith(_TORN):
                torn = [each for each in names if each.endswith(_TORN)]
                for old in torn[: max(0, len(torn) - TORN_COPIES_MAX + 1)]:
                    self._disk.remove(os.path.join(directory, old))
            # Torn tails were never acknowledged: old copies make room. Copies of damage stay.
            elif len(names) >= DAMAGES_MAX:
                raise StorageError(f"{directory}: holds {DAMAGES_MAX} copies already")
            self._disk.replace_file(os.path.join(directory, name), data)
        except StorageError as error:  # on a full disk, say
            logger.warning("cannot copy damaged bytes - %s", error)
            return ""
        return name

    def accept(self, start: int) -> None:
        """Take all pending damage as accepted by an operator.

        Gaps below ``start``, where the log begins, are forgotten. Raises StorageError, and then all
        of it is still pending.
        """
        if not self.pending:
            return
        before = self._recorded
        known = [each for each in (*before.known, *before.pending) if each.next > start]
        self._recorded = _Recorded([], known, before.lost_messages)
        self._changed = True
        try:
            self.save()
        except StorageError:
            self._recorded = before
            raise

    def save(self) -> None:
        """Write the record to disk if it has changed. Raises StorageError."""
        if self._changed and self._disk is not None:
            self._disk.replace_file(self._path, msgspec.json.encode(self._recorded))
            self._changed = False


def _place(damage: Damage) -> tuple[str, int, int, str]:
    """The place of the damage; of what has bytes, a later start may know better what it is."""
    return damage.file, damage.position, damage.nbytes, "" if damage.nbytes else damage.what


def _add(damages: list[Damage], damage: Damage) -> None:
    if len(damages) < DAMAGES_MAX:
        damages.append(damage)
        return
    last = damages[-1]
    first, next_ = (damage.first, damage.next) if damage.messages else (last.first, last.next)
    damages[-1] = msgspec.structs.replace(
        last,
        what="this and all other damage",
        nbytes=last.nbytes + damage.nbytes,
        first=min(last.first, first),
        next=max(last.next, next_),
    )
