"""The manifests of a backup folder: each lists the files of a data path at one moment.

``manifests/<moment>.json`` is written last, so a backup that was cut short leaves no manifest. The
listed files are in the folder's vault, which all backups share.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec
from msgspec import Struct

from penstock.core.errors import StorageError
from penstock.core.malformed import MALFORMED
from penstock.storage.files.disk import Disk
from penstock.storage.files.versions import check_version

VERSION: Final = 1
_FOLDER: Final = "manifests"
_SUFFIX: Final = ".json"


class Entry(Struct, frozen=True):
    """One file: its path below the data path, and the first ``nbytes`` of what the vault has under
    the name ``stored``. ``is_growing`` tells files that only grow from those kept by content.
    """

    path: str
    stored: str
    nbytes: int
    is_growing: bool = False


class Manifest(Struct):
    """The files of one backup; ``data_path`` is where they came from, ``wall_ns`` when."""

    data_path: str
    wall_ns: int
    entries: list[Entry] = []
    version: int = VERSION

    @property
    def nbytes(self) -> int:
        return sum(entry.nbytes for entry in self.entries)


def moments(disk: Disk, folder: str) -> list[str]:
    """The names of the backups in a folder, the oldest first. Raises StorageError."""
    names = disk.list(os.path.join(folder, _FOLDER))
    return [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]


def load(disk: Disk, folder: str, moment: str) -> Manifest:
    """The manifest of a backup. Raises StorageError."""
    path = _path(folder, moment)
    data = disk.read_file(path)
    if data is None:
        raise StorageError(f"{folder} has no backup {moment}")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except MALFORMED as error:
        raise StorageError(f"{path} is damaged: {error}") from error
    check_version(path, manifest.version, VERSION)
    for entry in manifest.entries:
        _check_inside(path, entry.path, "data path")
        _check_inside(path, entry.stored, "backup")
    return manifest


def _check_inside(path: str, name: str, folder: str) -> None:
    """Raise StorageError for the name of a file that is not below the folder it belongs to: a
    backup may have come from anywhere.
    """
    if not name or os.path.isabs(name) or "\0" in name or {".", ".."} & set(name.split(os.sep)):
        raise StorageError(
            f"{path} names {name!r}, outside of the {folder}: take a backup that nobody has changed"
        )


def save(disk: Disk, folder: str, moment: str, manifest: Manifest) -> None:
    """Write a manifest durably: from then on there is that backup. Raises StorageError."""
    disk.make_directory(os.path.join(folder, _FOLDER))
    disk.replace_file(_path(folder, moment), msgspec.json.encode(manifest))


def remove(disk: Disk, folder: str, moment: str) -> None:
    """Forget a backup. Raises StorageError."""
    disk.remove(_path(folder, moment))


def _path(folder: str, moment: str) -> str:
    return os.path.join(folder, _FOLDER, moment + _SUFFIX)
