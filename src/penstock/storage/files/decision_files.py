"""The files of decisions about staged parts: one for each name, beside the parts.

A file, little endian::

    0   4s   magic     b"PSD1"
    4   u32  length    of the content
    8   u64  checksum  xxh3_64 of the content
    16  content        ``broker.publish.decisions``
"""

from __future__ import annotations

import logging
import os
import re
import struct
from collections.abc import Iterator
from typing import Final

from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from penstock.storage.files.disk import Disk

logger = logging.getLogger(__name__)

_PREFIX = struct.Struct("<4sIQ")
_MAGIC: Final = b"PSD1"
_NAME: Final = re.compile(r"[0-9a-f]{32}\.decision")


class DecisionFiles:
    """The files in one folder, which is made with the first; ``durably`` syncs each."""

    def __init__(self, disk: Disk, directory: str, *, durably: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._durably = durably

    def load(self) -> Iterator[bytes]:
        """The contents; a file that is not whole is reported and left out. Raises StorageError."""
        for name in self._disk.list(self._directory):
            if not _NAME.fullmatch(name):
                continue
            path = os.path.join(self._directory, name)
            data = self._disk.read_file(path) or b""
            content = data[_PREFIX.size :]
            if data[: _PREFIX.size] == _prefix(content):
                yield content
            else:
                logger.error("%s is damaged: what a writer has decided is not known", path)

    def write(self, name: str, content: bytes) -> None:
        """Write the file of a name in place of the one before, in any thread.

        Raises StorageError.
        """
        self._disk.make_directory(self._directory)
        self._disk.replace_file(self._path(name), _prefix(content), content, sync=self._durably)

    def remove(self, name: str) -> None:
        """Remove the file of a name, durably, in any thread. Raises StorageError."""
        self._disk.remove(self._path(name))
        self._disk.sync_directory(self._directory)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, f"{xxh3_128_hexdigest(name.encode())}.decision")


def _prefix(content: bytes) -> bytes:
    return _PREFIX.pack(_MAGIC, len(content), xxh3_64_intdigest(content))
