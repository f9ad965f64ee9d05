"""The bytes of a folder's backups, each kept once.

``growing/`` has files that only grow, such as segments: a later backup adds the new bytes, and each
manifest says how many count for it. ``files/`` has the others, named by their content.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from typing import Final

from xxhash import xxh3_128_hexdigest

from penstock.core.errors import StorageError
from penstock.storage.backup.manifest import Entry, Manifest
from penstock.storage.backup.topic_files import HeldFile
from penstock.storage.files.disk import Disk, LogFile

CHUNK_BYTES: Final = 4 * 1024 * 1024
TAIL_BYTES: Final = 64 * 1024
"""The end of what is there must be the same in the file that is backed up: a batch states its time
in nanoseconds, so another history of the same length differs there."""
_GROWING: Final = "growing"
_FILES: Final = "files"

Read = Callable[[int, int], bytes]
"""A function that reads bytes of a file: position and number, fewer at the end."""


class Vault:
    """The vault of a folder, which holds what these manifests list."""

    def __init__(self, disk: Disk, folder: str, manifests: Iterable[Manifest]) -> None:
        self.copied = 0
        """Bytes written since it was opened."""
        self._disk = disk
        self._folder = folder
        self._known: dict[str, int] = {}  # growing files, and how much of each is in some manifest
        for entry in (each for manifest in manifests for each in manifest.entries):
            if entry.is_growing:
                self._known[entry.stored] = max(entry.nbytes, self._known.get(entry.stored, 0))

    def keep(self, path: str, data: bytes) -> Entry:
        """Keep a whole file. Raises StorageError."""
        stored = xxh3_128_hexdigest(data)
        directory = os.path.join(self._folder, _FILES)
        self._disk.make_directory(directory)
        target = os.path.join(directory, stored)
        # Compared, not believed by its name: a file that was damaged since is written again.
        if self._disk.read_file(target) != data:
            self._disk.replace_file(target, data)
            self.copied += len(data)
        return Entry(path, stored, len(data))

    def grow(self, path: str, name: str, read: Read, end: Callable[[int], int]) -> Entry:
        """Add the new bytes of a growing file, known by this name in all backups.

        ``end`` gives the position up to which the file is whole, from one up to which it is known
        to be. Raises StorageError.
        """
        stored, known = self._stored(name, read)
        until = end(known)
        target = os.path.join(self._folder, _GROWING, stored)
        if until > known or stored not in self._known:
            self._disk.make_directory(os.path.dirname(target))
            file = self._disk.open(target)
            try:
                file.truncate(known)  # the rest is of a backup that was cut short
                _copy(read, known, until, file)
                file.sync()
            finally:
                file.close()
            self._disk.sync_directory(os.path.dirname(target))
            self.copied += until - known
            self._known[stored] = until
        return Entry(path, stored, until, is_growing=True)

    def _stored(self, name: str, read: Read) -> tuple[str, int]:
        """The stored file to go on with, and how long it is: one whose end the file shares."""
        number = 0
        while True:
            stored = f"{name}-{number}" if number else name
            known = self._known.get(stored)
            if known is None:
                return stored, 0
            start = max(0, known - TAIL_BYTES)
            file = self._disk.open(os.path.join(self._folder, _GROWING, stored))
            tail = file.read(start, known - start)
            file.close()
            if read(start, known - start) == tail:
                return stored, known
            number += 1

    def restore(self, entry: Entry, target: str) -> None:
        """Write a file of a backup. Raises StorageError if it is not whole, or not in it."""
        kind = _GROWING if entry.is_growing else _FILES
        source = os.path.join(self._folder, kind, entry.stored)
        top = os.path.realpath(os.path.join(self._folder, kind))
        if os.path.commonpath([top, os.path.realpath(source)]) != top:
            raise StorageError(f"{source} is a link that leads out of the backup")
        self._disk.make_directory(os.path.dirname(target))
        if not entry.is_growing:
            data = self._disk.read_file(source)
            if data is None or xxh3_128_hexdigest(data) != entry.stored:
                raise StorageError(f"{source} is damaged or missing")
            self._disk.replace_file(target, data)
            return
        if not os.path.exists(source):
            raise StorageError(f"{source} is missing")
        stored = HeldFile(source)  # which may be where nothing can be written
        try:
            self._restore(stored, entry.nbytes, target)
        finally:
            stored.close()

    def _restore(self, stored: HeldFile, nbytes: int, target: str) -> None:
        if stored.end(0) < nbytes:
            raise StorageError(f"{stored.path} is cut short")
        file = self._disk.open(target)
        try:
            _copy(stored.read, 0, nbytes, file)
            file.sync()
        finally:
            file.close()

    def prune(self, manifests: Iterable[Manifest]) -> None:
        """Remove what none of these manifests lists. Raises StorageError."""
        entries = [entry for manifest in manifests for entry in manifest.entries]
        self._prune(_FILES, {entry.stored for entry in entries if not entry.is_growing})
        self._prune(_GROWING, {entry.stored for entry in entries if entry.is_growing})

    def _prune(self, kind: str, wanted: Collection[str]) -> None:
        top = os.path.join(self._folder, kind)
        for directory, _, names in os.walk(top):
            for name in names:
                path = os.path.join(directory, name)
                if os.path.relpath(path, top) not in wanted:
                    self._disk.remove(path)


def _copy(read: Read, position: int, end: int, file: LogFile) -> None:
    while position < end:
        data = read(position, min(CHUNK_BYTES, end - position))
        if not data:
            raise StorageError(f"{file.path}: what is copied there has become shorter")
        file.append(data)
        position += len(data)
