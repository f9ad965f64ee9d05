"""The disk of the storage floor, with second names of files and an exchange of folders."""

from __future__ import annotations

import ctypes
import errno
import os
import sys

from penstock.core.errors import StorageError
from penstock.storage.files.disk import OsDisk, kind_of

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
        library = ctypes.CDLL(None, use_errno=True)
        names = (os.fsencode(one), os.fsencode(other))
        if library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
            return
        code = ctypes.get_errno()
        if code in _NOT_SUPPORTED:
            raise StorageError(f"{one}: its file system cannot exchange two folders")
        raise kind_of(code)(f"{one}: {os.strerror(code)}")
