"""Merged files in place of those that they were made of, for all readers at once or not at all.

1. Beside the archive stands a folder with one for each that changes: the merged files, and second
   names of all files that stay.
2. A plan names them. From here on the work is finished, if need be after a crash; before, it is
   discarded.
3. Each is exchanged with the folder of the archive, at one moment.
4. Spark's log, where there is one, lists the merged files, by the replacement of one file.
5. The folders as they were are removed, then the plan.

A reader that lists a folder sees its old files or the merged ones. One that has listed before and
opens later, and Spark between the steps 3 and 4, find files gone: an error, and no wrong result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from penstock.core.errors import LockedError
from penstock.spark.compaction import sink_log
from penstock.spark.compaction.disk import FolderDisk
from penstock.spark.compaction.sink_log import Written, checksum
from penstock.storage.files.temporary import remove_temporaries

_PLAN: Final = "plan.json"
_STAGING: Final = ".compaction"


@dataclass(frozen=True, slots=True)
class Merge:
    """Names of files that became one."""

    old: Sequence[str]
    new: str


@dataclass(frozen=True, slots=True)
class Change:
    """A folder below the archive's, its place in the staging folder, and what is merged there."""

    folder: str
    staged: str
    merges: Sequence[Merge]


class Swap:
    """The steps from staged files to those of the archive in the folder ``root``."""

    def __init__(self, root: Path, disk: FolderDisk) -> None:
        self._root = root
        self._disk = disk
        self.staging = staging_of(root)
        self._plan = str(self.staging / _PLAN)

    def commit(self, changes: Sequence[Change]) -> None:
        """From here on these changes are made, whatever happens. Raises StorageError."""
        # All that the plan names is on disk before the plan.
        self._disk.sync_directory(str(self.staging))
        text = json.dumps([asdict(change) for change in changes], indent=1)
        self._disk.replace_file(self._plan, text.encode())

    def finish(self) -> None:
        """Do what the plan says and is not done yet; without a plan discard what is staged.

        Raises StorageError.
        """
        changes = self._planned()
        for change in changes:
            self._exchange(change)
        self._replace_in_log(changes)
        for change in changes:
            self._clear(change)
        # Before the rest: without a plan the next start discards what is left.
        self._disk.remove(self._plan)
        if self.staging.exists():
            self._disk.remove_tree(str(self.staging))

    def _planned(self) -> list[Change]:
        data = self._disk.read_file(self._plan)
        if data is None:
            return []
        return [
            Change(each["folder"], each["staged"], [Merge(**merge) for merge in each["merges"]])
            for each in json.loads(data)
        ]

    def _exchange(self, change: Change) -> None:
        staged, folder = self.staging / change.staged, self._root / change.folder
        if not (staged / change.merges[0].new).exists():
            return  # it is in its place
        self._disk.exchange(str(folder), str(staged))
        self._disk.sync_directory(str(folder.parent))
        self._disk.sync_directory(str(self.staging))

    def _replace_in_log(self, changes: Sequence[Change]) -> None:
        log = sink_log.settled(self._root) if changes else None
        if log is None:
            return
        text = log.replaced(dict(self._written(changes)))
        # Checksums of the text as it was would make the new one damaged.
        self._disk.remove(str(checksum(log.path)))
        remove_temporaries(self._disk, str(log.path.parent))
        self._disk.replace_alike(str(log.path), text.encode())

    def _written(self, changes: Sequence[Change]) -> Iterator[tuple[Written, list[Path]]]:
        for change in changes:
            folder = self._root / change.folder
            for merge in change.merges:
                status = (folder / merge.new).stat()
                new = Written(folder / merge.new, status.st_size, status.st_mtime_ns // 1_000_000)
                yield new, [folder / name for name in merge.old]

    def _clear(self, change: Change) -> None:
        """Remove a folder as it was.

        What somebody wrote there after the second names were given goes to the one in its place.
        """
        was, folder = self.staging / change.staged, self._root / change.folder
        gone = {name for merge in change.merges for name in merge.old}
        gone |= {checksum(Path(name)).name for name in gone}
        # Until it is empty: a writer that had the old folder open may add files meanwhile.
        while names := self._disk.list(str(was)):
            for name in names:
                if name in gone or _are_one(was / name, folder / name):
                    self._disk.remove(str(was / name))
                else:
                    self._disk.rename(str(was / name), str(folder / name))
        if was.exists():
            self._disk.remove_directory(str(was))


def staging_of(root: Path) -> Path:
    """The folder beside an archive's in which its compaction works; readers do not see it.

    It is in an archive's folder that is a mount: what lies beside that is on another disk.
    """
    real = Path(os.path.realpath(root))
    return real / _STAGING if os.path.ismount(real) else real.parent / f".{real.name}{_STAGING}"


def whole(root: str | os.PathLike[str]) -> Path:
    """The whole path of a folder without ``..``, as Hadoop has it in Spark's log."""
    return Path(os.path.abspath(root))


def finish(root: str | os.PathLike[str]) -> None:
    """Finish what a compaction of this folder that was killed has begun. Raises StorageError."""
    path = whole(root)
    if staging_of(path).exists():
        with held(path):
            Swap(path, FolderDisk()).finish()


@contextmanager
def held(root: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other pipelines and compactions away from a folder. Raises LockedError."""
    disk = FolderDisk()
    path = str(whole(root))
    disk.make_directory(path)
    try:
        lock = disk.lock(path)
    except LockedError:
        raise LockedError(
            f"{root} is in use: a pipeline writes to it, or a compaction is under way"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _are_one(path: Path, other: Path) -> bool:
    """True if both are names of one file."""
    return other.exists() and path.samefile(other)


def named(merges: Mapping[str, Sequence[Path]]) -> list[Merge]:
    """Merges by the names of their files."""
    return [Merge([path.name for path in files], new) for new, files in merges.items()]
