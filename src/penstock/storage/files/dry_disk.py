"""A disk of which nothing changes: what is written, cut off or removed is so in memory alone.

A start over it finds what the next real start would find, and tells what that would change.
"""

from __future__ import annotations

import os
from typing import Final

from penstock.core.errors import DiskFullError, StorageError
from penstock.storage.files.disk import DirectoryLock, Lock, LogFile, reported

MEMORY_MAX: Final = 64 * 1024 * 1024
"""Bytes that may be written; beyond it the disk is full."""


class _Content:
    """The content of a file: the first ``kept`` bytes of the real one, then ``more``."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.kept = 0
        self.more = bytearray()
        if path is not None:
            with reported(path):
                self.kept = os.stat(path).st_size

    @property
    def size(self) -> int:
        return self.kept + len(self.more)

    def read(self, position: int, nbytes: int) -> bytes:
        start, end = min(position, self.size), min(position + nbytes, self.size)
        stored = b""
        if self.path is not None and start < self.kept:
            with reported(self.path), open(self.path, "rb", buffering=0) as file:
                stored = os.pread(file.fileno(), min(end, self.kept) - start, start)
        return stored + bytes(self.more[max(0, start - self.kept) : max(0, end - self.kept)])

    def truncate(self, size: int) -> None:
        self.kept = min(self.kept, size)
        del self.more[size - self.kept :]


class DryFile:
    """A LogFile whose changes stay in memory."""

    def __init__(self, disk: DryDisk, path: str, content: _Content) -> None:
        self.path = path
        self.size = content.size
        self._disk = disk
        self._content = content

    def append(self, data: bytes | memoryview) -> None:
        self.size = self.write(self.size, data)

    def write(self, position: int, data: bytes | memoryview) -> int:
        assert position == self._content.size, "files grow at their end"
        self._disk.take_room(self.path, len(data))
        self._content.more += data
        return self._content.size

    def grow(self, size: int) -> None:
        self.size = size

    def read(self, position: int, nbytes: int) -> bytes:
        return self._content.read(position, min(nbytes, max(0, self.size - position)))

    def truncate(self, size: int) -> None:
        self._content.truncate(size)
        self.size = size

    def sync(self) -> None: ...

    def rewrite(self, position: int) -> None: ...

    def write_out(self, start: int) -> None: ...

    def reserve(self) -> None: ...

    def release(self) -> None: ...

    def close(self) -> None: ...


class DryDisk:
    """A Disk over the real one, which it only reads.

    ``removed`` are the real files and directories that would go, ``replaced`` the paths whose
    content would be new.
    """

    def __init__(self) -> None:
        self.removed: set[str] = set()
        self.replaced: set[str] = set()
        self._contents: dict[str, _Content] = {}
        self._room = MEMORY_MAX

    def take_room(self, path: str, nbytes: int) -> None:
        """Count bytes that are about to be written. Raises DiskFullError."""
        if nbytes > self._room:
            raise DiskFullError(f"{path}: a disk in memory holds at most {MEMORY_MAX} bytes")
        self._room -= nbytes

    def open(self, path: str) -> LogFile:
        content = self._contents.get(path)
        if content is None:
            content = _Content(path if self._is_there(path) else None)
            self._contents[path] = content
        return DryFile(self, path, content)

    def list(self, directory: str) -> list[str]:
        with reported(directory):
            try:
                names = os.listdir(directory)
            except FileNotFoundError:
                names = []
        there = {name for name in names if self._is_there(os.path.join(directory, name))}
        made = {
            os.path.basename(path) for path in self._contents if os.path.dirname(path) == directory
        }
        return sorted(there | made)

    def _is_there(self, path: str) -> bool:
        """True if there is a real file or directory that nothing has removed."""
        parent = path
        # A directory that was removed takes along what is below it.
        while parent not in self.removed:
            if parent == (parent := os.path.dirname(parent)):
                return os.path.lexists(path)
        return False

    def make_directory(self, path: str) -> None: ...

    def remove(self, path: str) -> None:
        self._contents.pop(path, None)
        if self._is_there(path):
            self.removed.add(path)

    def remove_tree(self, path: str) -> None:
        for below in [each for each in self._contents if each.startswith(path + "/")]:
            del self._contents[below]
        self.remove(path)

    def read_file(self, path: str) -> bytes | None:
        content = self._contents.get(path)
        if content is None:
            if not self._is_there(path):
                return None
            content = _Content(path)
        return content.read(0, content.size)

    def read_into(self, path: str, buffer: bytearray) -> int | None:
        data = self.read_file(path)
        if data is None:
            return None
        buffer[: len(data)] = data
        return len(data)

    def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
        self.take_room(path, sum(map(len, data)))
        content = _Content(None)
        for piece in data:
            content.more += piece
        self._contents[path] = content
        self.replaced.add(path)

    def rename(self, path: str, target: str) -> None:
        data = self.read_file(path)
        if data is None:
            raise StorageError(f"{path}: No such file or directory")
        self.replace_file(target, data)
        self.remove(path)

    def sync_all(self, path: str) -> bool:
        return True

    def sync_directory(self, path: str) -> None: ...

    def lock(self, directory: str) -> Lock:
        """Lock the real directory: no other process may write there meanwhile."""
        return DirectoryLock(directory)
