"""The folder of a run: made, and tried, before anything is started in it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from penstock.core.errors import PenstockError


class FolderError(PenstockError):
    """A folder cannot be made, or nothing can be written to it."""


def make_folder(folder: Path, remedy: str) -> None:
    """Make a folder and those above it, or take the one that is there.

    Raises FolderError with the remedy behind the reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        is_file = isinstance(error, FileExistsError)
        reason = "not a directory" if is_file else (error.strerror or str(error)).lower()
        raise FolderError(f"nothing can be written to {folder}: {reason}; {remedy}") from None
