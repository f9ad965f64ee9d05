"""An append-only file of small checksummed records: where the cursors of a queue are kept.

Each record is ``u32 length, u64 xxh3_64 of the payload, payload``. Reading stops at the first
record that is not whole; what follows is cut off. When most of the file is history, it is written
anew with the records that still count.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Sequence
from typing import Final

from xxhash import xxh3_64_intdigest

from penstock.storage.disk import Disk

logger = logging.getLogger(__name__)

_FRAME = struct.Struct("<IQ")
COMPACT_BYTES_MIN: Final = 256 * 1024
_GROWTH: Final = 8


class Journal:
    """The journal at ``path``; ``records`` are those found when it was opened."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        found = disk.read_file(path)
        data = found or b""
        self.records, good = _read(data)
        self._file = disk.open(path)
        if found is None:
            disk.sync_directory(os.path.dirname(path))
        if good < len(data):
            logger.warning("%s: cut off %d bytes that are no whole record", path, len(data) - good)
            self._file.truncate(good)
        self._compact_size = 0
        self.torn_bytes = len(data) - good

    @property
    def wants_compaction(self) -> bool:
        """Whether the file has grown to many times what it had after the last compaction."""
        return self._file.size > max(COMPACT_BYTES_MIN, _GROWTH * self._compact_size)

    def append(self, records: Sequence[bytes]) -> None:
        """Write records. Raises DiskFullError or StorageError; none of them is written then."""
        self._file.append(_frame(records))

    def replace(self, records: Sequence[bytes]) -> None:
        """Write the journal anew with just these records."""
        self._disk.replace_file(self._path, _frame(records))
        replaced, self._file = self._file, self._disk.open(self._path)
        replaced.close()
        self._compact_size = self._file.size

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def _frame(records: Sequence[bytes]) -> bytes:
    return b"".join(
        [_FRAME.pack(len(record), xxh3_64_intdigest(record)) + record for record in records]
    )


def _read(data: bytes) -> tuple[list[bytes], int]:
    """The whole records at the start of ``data`` and the position behind the last of them."""
    records: list[bytes] = []
    position = 0
    while position + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, position)
        start = position + _FRAME.size
        record = data[start : start + length]
        if len(record) < length or xxh3_64_intdigest(record) != checksum:
            break
        records.append(record)
        position = start + length
    return records, position
