"""Many files moved as one: either all of them, or none, whenever the power goes.

What is to be moved is written down first, in one small file. From then on it will be done, if need
be by the next start; before, nothing has happened. Paths are relative to the data path.
"""

from __future__ import annotations

import logging
import os
from typing import Final, NamedTuple

import msgspec

from penstock.core.errors import StorageError
from penstock.core.malformed import MALFORMED
from penstock.storage.files.disk import Disk

logger = logging.getLogger("penstock.nsqd")

STAGING: Final = "go-nsqd-import.tmp"
"""Directory for what is not in its place yet."""
_PLAN: Final = "moves.json"


class Move(NamedTuple):
    """A file to be moved; one that has another size by then is not the one that was meant."""

    source: str
    target: str
    nbytes: int


class _Plan(msgspec.Struct):
    moves: list[Move]
    version: int = 1


def begin(disk: Disk, data_path: str) -> None:
    """Make the staging directory, empty. Raises StorageError."""
    disk.make_directory(os.path.join(data_path, STAGING))


def commit(disk: Disk, data_path: str, moves: list[Move]) -> None:
    """Move the files, which must be synced already. Raises StorageError.

    If it does, either nothing was moved, or ``resume`` at the next start moves the rest.
    """
    plan = msgspec.json.encode(_Plan(moves))
    try:
        # This is the commit: what is not moved after it, the next start moves.
        disk.replace_file(os.path.join(data_path, STAGING, _PLAN), plan)
    except StorageError:
        abandon(disk, data_path)
        raise
    _move(disk, data_path, moves)
    abandon(disk, data_path)


def resume(disk: Disk, data_path: str) -> bool:
    """Finish what an earlier process has committed, and drop what it has not; whether there was
    anything to finish.

    Raises StorageError.
    """
    if STAGING not in disk.list(data_path):
        return False
    path = os.path.join(data_path, STAGING, _PLAN)
    data = disk.read_file(path)
    # Killed before the commit: Go's files are where they were.
    if data is None:
        abandon(disk, data_path)
        return False
    try:
        moves = msgspec.json.decode(data, type=_Plan).moves
    except MALFORMED as error:
        raise StorageError(f"{path} is damaged: {error}") from error
    _move(disk, data_path, moves)
    abandon(disk, data_path)
    return True


def abandon(disk: Disk, data_path: str) -> None:
    """Drop what is still staged, the plan durably first. Raises StorageError."""
    staging = os.path.join(data_path, STAGING)
    disk.remove(os.path.join(staging, _PLAN))
    disk.sync_directory(staging)  # a plan that came back would take what is missing for moved
    disk.remove_tree(staging)
    disk.sync_directory(data_path)


def _move(disk: Disk, data_path: str, moves: list[Move]) -> None:
    absolute = [
        Move(os.path.join(data_path, source), os.path.join(data_path, target), nbytes)
        for source, target, nbytes in moves
    ]
    sources = {os.path.dirname(move.source) for move in absolute}
    targets = {os.path.dirname(move.target) for move in absolute}
    present = {os.path.join(source, name) for source in sources for name in disk.list(source)}
    for target in sorted(targets):
        disk.make_directory(target)
    for source, target, nbytes in absolute:
        if source not in present:
            continue  # done before
        file = disk.open(source)
        unchanged = file.size == nbytes
        file.close()
        if unchanged:
            disk.rename(source, target)
        else:
            logger.warning("IMPORT: %s has changed since it was imported and stays", source)
    for directory in [*sorted(targets), *sorted(sources - targets)]:
        disk.sync_directory(directory)
