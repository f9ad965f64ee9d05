"""The files of staged parts: one for each chunk, named by a number, in one folder.

A file, little endian::

    0   4s   magic     b"PST1"
    4   u32  length    of the head
    8   u64  checksum  xxh3_64 of the head
    16  head           whose part it is
        batches        messages that have no place in a log yet, as ``storage.batch`` has them

A file is there as a whole or not at all, except after a power cut, which the checksums show.
"""

from __future__ import annotations

import logging
import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from penstock.core.errors import StorageError
from penstock.storage.batch import Batch, CorruptBatchError, iter_batches
from penstock.storage.files.disk import Disk
from penstock.storage.files.temporary import remove_temporaries

logger = logging.getLogger(__name__)

_PREFIX = struct.Struct("<4sIQ")
_MAGIC: Final = b"PST1"
_NAME: Final = re.compile(r"([0-9]{20})\.part")
_HEAD_MAX: Final = 4096


class Found(NamedTuple):
    """A file that is there."""

    number: int
    head: bytes


class PartFiles:
    """The files in one folder, which is made with the first; ``durably`` syncs each."""

    def __init__(self, disk: Disk, directory: str, *, durably: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._durably = durably

    def load(self) -> Iterator[Found]:
        """The files in the order of their numbers; those that are not whole are removed.

        Raises StorageError.
        """
        remove_temporaries(self._disk, self._directory)
        for name in self._disk.list(self._directory):
            matched = _NAME.fullmatch(name)
            if matched is None:
                continue
            found = self._look(int(matched[1]))
            if found is not None:
                yield found
            else:
                logger.warning("%s/%s: not a whole staged part, removed", self._directory, name)
                self.remove([int(matched[1])])

    def _look(self, number: int) -> Found | None:
        file = self._disk.open(self._path(number))
        try:
            start = file.read(0, _PREFIX.size + _HEAD_MAX)
            if len(start) < _PREFIX.size:
                return None
            magic, length, checksum = _PREFIX.unpack_from(start)
            head = start[_PREFIX.size : _PREFIX.size + length]
            if magic != _MAGIC or len(head) < length or xxh3_64_intdigest(head) != checksum:
                return None
            return Found(number, head)
        finally:
            file.close()

    def write(self, number: int, head: bytes, batches: Sequence[Batch]) -> None:
        """Write a file, in any thread. Raises StorageError; then it is not there."""
        assert len(head) <= _HEAD_MAX, "the head is read with one call"
        self._disk.make_directory(self._directory)
        prefix = _PREFIX.pack(_MAGIC, len(head), xxh3_64_intdigest(head))
        bodies = [batch.raw for batch in batches]
        self._disk.replace_file(self._path(number), prefix, head, *bodies, sync=self._durably)

    def read(self, number: int, count: int, buffer: bytearray) -> list[Batch] | None:
        """Read the batches of a file into a buffer; None when it is missing, or damaged so that it
        does not have ``count`` messages. Raises StorageError.
        """
        size = self._disk.read_into(self._path(number), buffer)
        if size is None or size < _PREFIX.size:
            return None
        magic, length, _ = _PREFIX.unpack_from(buffer)
        try:
            found = list(iter_batches(memoryview(buffer)[_PREFIX.size + length : size]))
        except CorruptBatchError:
            return None
        whole = magic == _MAGIC and sum(batch.count for batch in found) == count
        return found if whole else None

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove files, in any thread; what cannot be removed is left to the next start."""
        for number in numbers:
            try:
                self._disk.remove(self._path(number))
            except StorageError as error:
                logger.warning("cannot remove a staged part - %s", error)

    def _path(self, number: int) -> str:
        # As many digits as a u64 may have: names sort as their numbers do.
        return os.path.join(self._directory, f"{number:020d}.part")
