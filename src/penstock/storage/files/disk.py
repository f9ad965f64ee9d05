"""The one door to the disk: every file of the log is opened, written and synced through here.

``Disk`` is what the storage floor needs of a file system; ``OsDisk`` is the real one and
``penstock.testing.disk.FaultyDisk`` the one that tears, fills up and loses what was not synced.
Errors arrive as ``StorageError`` and its kinds, with the path in the text.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from penstock.core.errors import DiskFullError, LockedError, StorageError, TooManyFilesError
from penstock.storage.files.temporary import temporary_path

RESERVED_MAX: Final = 1024 * 1024
RESERVED_MIN: Final = 64 * 1024
"""Files that are shorter get nothing reserved, longer ones at most as much as they have already."""

_libc: Final = ctypes.CDLL(None, use_errno=True)
_WAIT_BEFORE, _WRITE = 1, 2
"""Flags of ``sync_file_range`` (Linux): wait for what is being written, begin to write the rest."""
_REWRITE_BYTES: Final = 1024 * 1024

_KINDS: dict[int, type[StorageError]] = {
    errno.ENOSPC: DiskFullError,
    errno.EDQUOT: DiskFullError,
    # The limit of `ulimit -f` or of the file system: to a publisher it is a full disk.
    errno.EFBIG: DiskFullError,
    errno.EMFILE: TooManyFilesError,
    errno.ENFILE: TooManyFilesError,
}


class LogFile(Protocol):
    """A file that grows at its end and is read anywhere."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes appended so far, a failed append not counted."""
        ...

    def append(self, data: bytes | memoryview) -> None:
        """Write all of ``data`` at the end, or nothing.

        Raises DiskFullError or StorageError; the file then has the size it had before.
        """
        ...

    def write(self, position: int, data: bytes | memoryview) -> int:
        """Write all of ``data`` behind the end, where nobody reads until ``grow``; where it ends.

        Raises DiskFullError or StorageError; then nothing is left behind the end.
        """
        ...

    def grow(self, size: int) -> None:
        """Make what ``write`` has put behind the end a part of the file, up to this size."""
        ...

    def read(self, position: int, nbytes: int) -> bytes:
        """Up to ``nbytes`` from ``position``; fewer at the end of the file."""
        ...

    def sync(self) -> None:
        """Bring what was appended to stable storage. Raises StorageError; never retry after
        that.
        """
        ...

    def rewrite(self, position: int) -> None:
        """Write the bytes from ``position`` to the end once more, for the next sync. Raises
        StorageError.

        After a failed sync the system takes them for written, and a further sync would leave them
        out.
        """
        ...

    def write_out(self, start: int) -> None:
        """Have the system begin to write what was appended from a position on, once it has written
        what it began before. May be called in any thread, and promises nothing.
        """
        ...

    def reserve(self) -> None:
        """Have zeros behind the end, over which appends go: to sync these costs about half as much,
        as the file does not grow. May be called in any thread; without room nothing happens.
        """
        ...

    def release(self) -> None:
        """Give back what was reserved; no more will be appended."""
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A held directory lock."""

    def release(self) -> None: ...


class Disk(Protocol):
    """The part of the file system that storage uses."""

    def open(self, path: str) -> LogFile:
        """The file at ``path``, made empty when it is not there."""
        ...

    def list(self, directory: str) -> list[str]:
        """Names in the directory, sorted; empty when there is no such directory."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; what was made is durable when it returns."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file; one that is not there is no error."""
        ...

    def remove_tree(self, path: str) -> None:
        """Delete a directory and all in it."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """The whole file, or None when it is not there."""
        ...

    def read_into(self, path: str, buffer: bytearray) -> int | None:
        """Read the whole file into a buffer, which grows if need be; its size, or None when it is
        not there.
        """
        ...

    def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
        """Put ``data`` at ``path`` so that a crash leaves the old content or the new one."""
        ...

    def rename(self, path: str, target: str) -> None:
        """Give a file another name, in place of a file that has it; durable when both directories
        are synced.
        """
        ...

    def sync_directory(self, path: str) -> None:
        """Make creations and deletions in the directory durable."""
        ...

    def sync_all(self, path: str) -> bool:
        """Bring all that was written to files below a directory to stable storage at once, in any
        thread; False where the system cannot, and nothing was done. Raises StorageError.
        """
        ...

    def lock(self, directory: str) -> Lock:
        """Lock the directory for this process. Raises LockedError when another one holds it."""
        ...


@contextmanager
def reported(path: str) -> Iterator[None]:
    """Raise a StorageError of its kind, with the path, for what the system refuses."""
    try:
        yield
    except OSError as error:
        remedy = "; run this as the user whom it belongs to" * (error.errno == errno.EACCES)
        raise kind_of(error.errno)(f"{path}: {error.strerror or error}{remedy}") from error


def kind_of(code: int | None) -> type[StorageError]:
    """The kind of error for an errno."""
    return _KINDS.get(code or 0, StorageError)


class OsLogFile:
    """A LogFile over a file descriptor."""

    def __init__(self, path: str) -> None:
        self.path = path
        with reported(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.size = self._reserved = os.fstat(self._fd).st_size
        self._reserving = threading.Lock()
        self._grows = True

    def append(self, data: bytes | memoryview) -> None:
        self.size = self.write(self.size, data)

    def write(self, position: int, data: bytes | memoryview) -> int:
        end = position + len(data)
        # Over zeros that are there: the file does not grow, and ``reserve`` writes behind them.
        if end <= self._reserved:
            self._write(position, data)
        else:
            with self._reserving:  # or its zeros would come over this
                self._write(position, data)
                self._reserved = max(self._reserved, end)
        return end

    def grow(self, size: int) -> None:
        self.size = size

    def _write(self, position: int, data: bytes | memoryview) -> None:
        try:
            written = os.pwrite(self._fd, data, position)
            # A disk that is nearly full takes a part; the next call says why.
            while written < len(data):
                written += os.pwrite(self._fd, memoryview(data)[written:], position + written)
        except OSError as error:
            with suppress(OSError):  # a tail that stays is overwritten, or cut at recovery
                os.ftruncate(self._fd, self.size)
                self._reserved = self.size
            raise kind_of(error.errno)(f"{self.path}: {error.strerror}") from error

    def read(self, position: int, nbytes: int) -> bytes:
        try:
            return os.pread(self._fd, nbytes, position)
        except OSError as error:
            raise kind_of(error.errno)(f"{self.path}: {error.strerror}") from error

    def sync(self) -> None:
        with reported(self.path):
            if self._fd < 0:  # which is a ValueError for Python
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            # It brings the size along, which is all that a reader needs besides the bytes.
            os.fdatasync(self._fd)

    def rewrite(self, position: int) -> None:
        with reported(self.path):
            while position < self.size:
                data = os.pread(self._fd, min(_REWRITE_BYTES, self.size - position), position)
                position += os.pwrite(self._fd, data, position)

    def write_out(self, start: int) -> None:
        range_of = getattr(_libc, "sync_file_range", None)
        if range_of is not None and self._fd >= 0 and start < self.size:
            # A mistake shows with the next sync, which is what counts.
            arguments = self._fd, start, self.size - start, _WAIT_BEFORE | _WRITE
            fd, *places = arguments[:3]
            range_of(fd, *map(ctypes.c_int64, places), arguments[3])

    def reserve(self) -> None:
        nbytes = min(self.size, RESERVED_MAX)
        # A quarter that is left is enough until the next sync asks again.
        if nbytes < RESERVED_MIN or self._reserved - self.size >= nbytes // 4:
            return
        with self._reserving:
            if not self._grows:
                return
            start = self._reserved
            try:
                written = os.pwrite(self._fd, bytes(nbytes), start)
            except OSError:  # whoever appends will meet it
                return
            self._reserved = start + written

    def release(self) -> None:
        with self._reserving, suppress(OSError):  # zeros are cut off at the next start, too
            self._grows = False
            if self._reserved > self.size:
                os.ftruncate(self._fd, self.size)
                self._reserved = self.size

    def truncate(self, size: int) -> None:
        with reported(self.path):
            os.ftruncate(self._fd, size)
        self.size = self._reserved = size

    def close(self) -> None:
        if self._fd >= 0:
            self.release()
        # Forgotten, so that a late write fails instead of reaching the number's next owner.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class DirectoryLock:
    """``flock`` on the directory itself, as Go's nsqd does, so that the two exclude each other."""

    def __init__(self, directory: str) -> None:
        try:
            self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StorageError(f"open {directory}: {(error.strerror or '').lower()}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise LockedError(
                f"cannot flock directory {directory} - {(error.strerror or '').lower()} "
                "(possibly in use by another instance of nsqd)"
            ) from error

    def release(self) -> None:
        os.close(self._fd)


class OsDisk:
    """The real file system."""

    def open(self, path: str) -> LogFile:
        return OsLogFile(path)

    def list(self, directory: str) -> list[str]:
        with reported(directory):
            try:
                return sorted(os.listdir(directory))
            except FileNotFoundError:
                return []

    def make_directory(self, path: str) -> None:
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path.rstrip("/"))
        if parent:
            self.make_directory(parent)
        with reported(path):
            # The parent is synced after it, or a power cut could take the new folder and all in it.
            os.mkdir(path, mode=0o755)
        self.sync_directory(parent)

    def remove(self, path: str) -> None:
        with reported(path), suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        for name in self.list(path):
            child = os.path.join(path, name)
            if os.path.isdir(child) and not os.path.islink(child):
                self.remove_tree(child)
            else:
                self.remove(child)
        with reported(path), suppress(FileNotFoundError):
            os.rmdir(path)

    def read_file(self, path: str) -> bytes | None:
        with reported(path):
            try:
                with open(path, "rb") as file:
                    return file.read()
            except FileNotFoundError:
                return None

    def read_into(self, path: str, buffer: bytearray) -> int | None:
        with reported(path):
            try:
                with open(path, "rb", buffering=0) as file:
                    size = os.fstat(file.fileno()).st_size
                    buffer.extend(bytes(max(0, size - len(buffer))))
                    with memoryview(buffer) as view:
                        read = 0
                        while read < size and (more := file.readinto(view[read:size])):
                            read += more
                        return read
            except FileNotFoundError:
                return None

    def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
        temporary = temporary_path(path)
        with reported(path):
            try:
                with open(
                    os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
                ) as f:
                    f.writelines(data)
                    f.flush()
                    if sync:
                        # Before the rename, or a power cut may leave an empty file there.
                        os.fsync(f.fileno())
                os.rename(temporary, path)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
        if sync:
            self.sync_directory(os.path.dirname(path))

    def rename(self, path: str, target: str) -> None:
        with reported(path):
            os.rename(path, target)

    def sync_directory(self, path: str) -> None:
        with reported(path):
            fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def sync_all(self, path: str) -> bool:
        # The standard library has no syncfs, and `os.sync` would wait for every file system.
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            return False
        with reported(path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if syncfs(fd):
                    code = ctypes.get_errno()
                    raise OSError(code, os.strerror(code))
            finally:
                os.close(fd)
        return True

    def lock(self, directory: str) -> Lock:
        return DirectoryLock(directory)
