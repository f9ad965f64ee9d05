"""Temporary names of files that are about to replace another.

A process that is killed before the replacement leaves them behind. Their content was never promised
to anybody, so the next process removes them.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Final, Protocol

from penstock.core.errors import StorageError

_NAME: Final = re.compile(r"(.+)\.[0-9a-f]{8}\.tmp")

logger = logging.getLogger(__name__)


class Directories(Protocol):
    """The part of a disk that lists and removes files."""

    def list(self, path: str) -> list[str]: ...

    def remove(self, path: str) -> None: ...


def temporary_path(path: str) -> str:
    """A fresh temporary path for the next content of a file."""
    return f"{path}.{os.urandom(4).hex()}.tmp"


def is_temporary(path: str) -> bool:
    """True if that is the temporary path of some file."""
    return _NAME.fullmatch(os.path.basename(path)) is not None


def remove_temporaries(disk: Directories, directory: str, of: str | None = None) -> None:
    """Remove leftover temporary files of a directory: all of them, or those of the file ``of``.

    No other process may be writing there. A failure is logged.
    """
    try:
        for name in disk.list(directory):
            found = _NAME.fullmatch(name)
            if found is not None and of in (None, found[1]):
                disk.remove(os.path.join(directory, name))
    except StorageError as error:  # they only take up room
        logger.warning("cannot remove temporary files - %s", error)
