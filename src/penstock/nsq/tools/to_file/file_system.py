"""The file system as nsq_to_file uses it: directories, files, syncs, moves that never overwrite.

What is made here is durable when the call returns. Errors are DiskErrors in the words of Go's
programs: the operation, the path, the reason (``open /d/f: permission denied``).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import BinaryIO, Final

from penstock.core.errors import PenstockError

# Go's modes, less the umask (NSQ spec 6.4).
DIRECTORY_MODE: Final = 0o770
FILE_MODE: Final = 0o666

_COPIED_AT_A_TIME: Final = 1 << 20
_NO_LINKS: Final = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK))
"""The errors of file systems without hard links."""


class DiskError(PenstockError):
    """The system refused; ``number`` is its errno."""

    def __init__(self, operation: str, error: OSError) -> None:
        words = error.strerror or str(error)
        super().__init__(f"{operation}: {words[:1].lower()}{words[1:]}")
        self.number = error.errno


class ExistsError(DiskError):
    """A file of that name is there already."""


@contextmanager
def _told(operation: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise ExistsError(operation, error) from error
    except OSError as error:
        raise DiskError(operation, error) from error


def join(directory: str, name: str) -> str:
    """The path of ``name``, which may hold slashes, below ``directory``."""
    return os.path.normpath(f"{directory or '.'}/{name}")


def same_directory(one: str, other: str) -> bool:
    """True if two paths, of directories that need not exist yet, lead to the same place."""
    return os.path.realpath(one) == os.path.realpath(other)


def make_directories(path: str) -> None:
    """Make a directory and those above it; those that exist are left alone."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        mode = 0  # what is wrong, if it is not only absent, shows when it is made
    if stat.S_ISDIR(mode):
        return
    if mode:
        in_the_way = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        raise DiskError(f"mkdir {path}", in_the_way)
    parent = os.path.dirname(path)
    if parent and parent != path:
        make_directories(parent)
    with _told(f"mkdir {path}"), suppress(FileExistsError):  # somebody was quicker
        os.mkdir(path, DIRECTORY_MODE)
    sync_directory(parent)


def create(path: str) -> int:
    """A new file, as a descriptor for writing. Raises ExistsError."""
    return _open(path, os.O_EXCL)


def open_to_append(path: str) -> int:
    """The file, made empty when it is not there, as a descriptor that writes at its end."""
    return _open(path, os.O_APPEND)


def _open(path: str, how: int) -> int:
    with _told(f"open {path}"):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, FILE_MODE)
    try:
        sync_directory(os.path.dirname(path))
    except DiskError:
        os.close(fd)
        raise
    return fd


def exists(path: str) -> bool:
    """True if something has this name. Raises DiskError when that cannot be known."""
    with _told(f"stat {path}"):
        try:
            os.stat(path)
        except FileNotFoundError:
            return False
    return True


def size_of(fd: int, path: str) -> int:
    """Bytes in an open file."""
    with _told(f"stat {path}"):
        return os.fstat(fd).st_size


def ends_in_line(path: str) -> bool:
    """True if the last byte of a file is a line's end.

    True as well for an empty file, and for one that must not be read.
    """
    with suppress(OSError), open(path, "rb") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    return True


def write(fd: int, path: str, data: bytes) -> None:
    """All of it; after an error a part may be written."""
    with _told(f"write {path}"):
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, memoryview(data)[written:])


def sync(fd: int, path: str) -> None:
    """Bring a file to stable storage. After an error its content is unknown: never try again."""
    with _told(f"sync {path}"):
        os.fsync(fd)


def close(fd: int, path: str) -> None:
    """Give a descriptor back."""
    with _told(f"close {path}"):
        os.close(fd)


def sync_directory(path: str) -> None:
    """Bring the names in a directory to stable storage, where that can be done."""
    with _told(f"sync {path or '.'}"):
        try:
            fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:  # a directory to drop files into, not to be read
            return
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno != errno.EINVAL:  # what file systems say that cannot do it
                raise
        finally:
            os.close(fd)


def move(source: str, target: str) -> None:
    """Give a finished file another name, never in place of a file that has it.

    The name becomes durable before the old one goes; a crash leaves both. Where there are no hard
    links the new name is taken by an empty file first. Raises ExistsError, and DiskError with
    EXDEV when the target is on another file system: see ``copy``.
    """
    try:
        with _told(f"link {source} {target}"):
            os.link(source, target)
    except DiskError as error:
        if error.number not in _NO_LINKS:
            raise
        os.close(create(target))
        with _told(f"rename {source} {target}"):
            os.rename(source, target)
    sync_directory(os.path.dirname(target))
    with _told(f"remove {source}"), suppress(FileNotFoundError):  # when it was renamed
        os.unlink(source)
    sync_directory(os.path.dirname(source))


def is_elsewhere(error: DiskError) -> bool:
    """True if a move failed because the target is on another file system."""
    return error.number == errno.EXDEV


def copy(source: str, target: str) -> str:
    """Copy a finished file into the target's directory, so that ``move`` can finish the way; the
    path of the copy. Others may copy to the same target: it is this call's alone.
    """
    directory, name = os.path.split(target)
    partial = os.path.join(directory, f".{name}.{token_hex(4)}.partial")
    with _told(f"copy {source} {partial}"), open(source, "rb") as reader:
        with open(partial, "xb") as writer:
            try:
                _copy(reader, writer)
            except OSError:
                os.unlink(partial)
                raise
        os.chmod(partial, stat.S_IMODE(os.stat(source).st_mode))
    return partial


def _copy(reader: BinaryIO, writer: BinaryIO) -> None:
    while piece := reader.read(_COPIED_AT_A_TIME):
        writer.write(piece)
    writer.flush()
    os.fsync(writer.fileno())


def remove(path: str) -> None:
    """Delete a file."""
    with _told(f"remove {path}"):
        os.unlink(path)
    sync_directory(os.path.dirname(path))
