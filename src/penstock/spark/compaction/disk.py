"""The disk of the storage floor, with second names of files and an exchange of folders."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from contextlib import suppress

from penstock.core.errors import StorageError
from penstock.storage.files.disk import OsDisk, kind_of
from penstock.storage.files.temporary import temporary_path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NOT_SUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


class FolderDisk(OsDisk):
    """The real file system."""

    def link(self, path: str, name: str) -> None:
        """Give a file a second name."""
        try:
            os.link(path, name)
        except OSError as error:
            raise kind_of(error.errno)(f"{name}: {error.strerror}") from error

    def alike(self, path: str, other: str) -> None:
        """Give a file or folder the rights of another and, where we may, its owner and group."""
        try:
            wanted = os.stat(other)
            with suppress(PermissionError):
                os.chown(path, wanted.st_uid, wanted.st_gid)
            os.chmod(path, stat.S_IMODE(wanted.st_mode))
        except OSError as error:
            raise kind_of(error.errno)(f"{path}: {error.strerror}") from error

    def replace_alike(self, path: str, data: bytes) -> None:
        """Replace a file that is there by one with its rights and owner, which others may read."""
        temporary = temporary_path(path)
        self.replace_file(temporary, data)
        # Before the rename: readers must never meet a file that they may not read.
        self.alike(temporary, path)
        self.rename(temporary, path)
        self.sync_directory(os.path.dirname(path))

    def remove_directory(self, path: str) -> None:
        """Remove a folder that is empty."""
        try:
            os.rmdir(path)
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from error

    def exchange(self, one: str, other: str) -> None:
        """Have two folders swap their places at one moment, so that nobody ever sees neither.

        Raises StorageError, also where the system or the file system cannot do so.
        """
        if sys.platform != "linux":
            raise StorageError(f"{one}: folders can be exchanged on Linux only")
        # Python's os has no renameat2.
        library = ctypes.CDLL(None, use_errno=True)
        names = (os.fsencode(one), os.fsencode(other))
        if library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
            return
        code = ctypes.get_errno()
        if code in _NOT_SUPPORTED:
            raise StorageError(f"{one}: its file system cannot exchange two folders")
        raise kind_of(code)(f"{one}: {os.strerror(code)}")
