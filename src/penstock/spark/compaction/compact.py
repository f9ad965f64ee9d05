"""The choice of files that become one, and the work over a whole archive."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from penstock.core.errors import PenstockError, StorageError
from penstock.spark.archive.names import FileName
from penstock.spark.compaction import merging, sink_log
from penstock.spark.compaction.disk import FolderDisk
from penstock.spark.compaction.merging import Kind
from penstock.spark.compaction.swap import Change, Swap, held, named, whole
from penstock.storage.files.disk import reported

FILE_BYTES: Final = 128 << 20
"""About the size of a merged file; one of half of it stays as it is."""
_STAGED_BYTES_MAX: Final = 1 << 30


@dataclass(slots=True)
class Result:
    """Counts of what was merged."""

    folders: int = 0
    files_before: int = 0
    files_after: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one folder that become one."""

    kind: Kind
    files: Sequence[Path]


def compact(
    root: str | os.PathLike[str], file_bytes: int = FILE_BYTES, disk: FolderDisk | None = None
) -> Result:
    """Merge the small files of each folder below ``root``; what a crash has cut short comes first.

    Raises PenstockError where the folder cannot be compacted or is in use, StorageError for a file
    that cannot be read; folders that were done before are done.
    """
    path, disk = whole(root), disk or FolderDisk()
    with reported(str(path)):
        _require_files(path)
    result = Result()
    with held(path):
        swap = Swap(path, disk)
        swap.finish()
        for folders in _portions(chosen(path, file_bytes)):
            _stage(path, swap, folders, disk, result)
            swap.finish()
    return result


def chosen(root: Path, file_bytes: int) -> dict[Path, list[Group]]:
    """The groups of each folder that has some. Raises StorageError."""
    by_folder: dict[Path, list[Path]] = {}
    for file in _files(root):
        by_folder.setdefault(file.parent, []).append(file)
    found = {}
    for folder, files in by_folder.items():
        if len(files) < 2:  # which is known without a look into the file
            continue
        groups = list(_groups(files, file_bytes))
        # A swap exchanges whole folders and keeps files alone: what lies below would be gone.
        if groups and folder != root and not any(each.is_dir() for each in folder.iterdir()):
            found[folder] = groups
    return found


def _require_files(root: Path) -> None:
    if not root.is_dir():
        raise PenstockError(f"{root} is not a folder: name one that a pipeline writes to")
    if (root / "_delta_log").is_dir():
        raise PenstockError(f"{root} is a Delta table: compact it by `OPTIMIZE` in Spark SQL")
    if any((root / "metadata").glob("*.metadata.json")):
        raise PenstockError(
            f"{root} is an Iceberg table: compact it by `call system.rewrite_data_files`"
        )


def _files(root: Path) -> Iterator[Path]:
    """The files that count: those of Spark's log that are settled, or all if there is no log."""
    if sink_log.exists(root):
        log = sink_log.settled(root)
        yield from (file for file in (log.files if log else ()) if file.is_relative_to(root))
        return
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name[0] not in "_.")
        yield from (Path(folder, name) for name in sorted(files) if name[0] not in "_.")


def _groups(files: Iterable[Path], file_bytes: int) -> Iterator[Group]:
    """Neighbours that are small and alike, up to ``file_bytes`` together."""
    group: list[Path] = []
    nbytes, looked, kind = 0, None, None
    for file in files:
        own = merging.kind_of(file)
        size = _size(file)
        if own is None or size * 2 >= file_bytes:
            continue
        looks = (own.ending, own.alike(file))
        parts = group and not _goes_on(group[-1], file)
        if kind and (parts or looks != looked or nbytes + size > file_bytes):
            yield from _several(kind, group)
            group, nbytes = [], 0
        group, nbytes, looked, kind = [*group, file], nbytes + size, looks, own
    if kind:
        yield from _several(kind, group)


def _goes_on(file: Path, other: Path) -> bool:
    """True for files that may be one: of an archive whose names are ranges, only neighbours."""
    one, two = FileName.read(file.name), FileName.read(other.name)
    return one is two is None or bool(one and two and one.goes_on_in(two))


def _joined(group: Group) -> str:
    """The name of the file that a group becomes."""
    first, last = (FileName.read(group.files[at].name) for at in (0, -1))
    if first is None or last is None:
        return f"compacted-{uuid4()}{group.kind.ending}"
    return str(first._replace(last=last.last))


def _several(kind: Kind, files: Sequence[Path]) -> Iterator[Group]:
    if len(files) > 1:
        yield Group(kind, files)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise StorageError(f"{file}: {error.strerror}") from None


def _portions(found: dict[Path, list[Group]]) -> Iterator[dict[Path, list[Group]]]:
    """Portions of folders that are changed together, each within a gigabyte of room."""
    portion: dict[Path, list[Group]] = {}
    nbytes = 0
    for folder, groups in found.items():
        size = sum(_size(file) for group in groups for file in group.files)
        if portion and nbytes + size > _STAGED_BYTES_MAX:
            yield portion
            portion, nbytes = {}, 0
        portion[folder] = groups
        nbytes += size
    if portion:
        yield portion


def _stage(
    root: Path, swap: Swap, folders: dict[Path, list[Group]], disk: FolderDisk, result: Result
) -> None:
    """Write the merged files beside the archive, and the plan that puts them in place."""
    changes = []
    for number, (folder, groups) in enumerate(folders.items()):
        staged = swap.staging / str(number)
        disk.make_directory(str(staged))
        disk.alike(str(staged), str(folder))
        merges = {}
        for group in groups:
            new = _joined(group)
            result.rows += merging.merge(group.kind, group.files, staged / new)
            disk.alike(str(staged / new), str(group.files[0]))
            _sync(disk, staged / new)
            merges[new] = group.files
        _keep_others(disk, folder, staged, {file.name for each in groups for file in each.files})
        disk.sync_directory(str(staged))
        changes.append(Change(str(folder.relative_to(root)), str(number), named(merges)))
        result.folders += 1
        result.files_before += sum(len(files) for files in merges.values())
        result.files_after += len(merges)
    swap.commit(changes)


def _keep_others(disk: FolderDisk, folder: Path, staged: Path, merged: set[str]) -> None:
    """Second names for the files of a folder that stay."""
    merged = merged | {sink_log.checksum(Path(name)).name for name in merged}
    for name in disk.list(str(folder)):
        if name not in merged:
            disk.link(str(folder / name), str(staged / name))


def _sync(disk: FolderDisk, path: Path) -> None:
    file = disk.open(str(path))
    try:
        file.sync()
    finally:
        file.close()
