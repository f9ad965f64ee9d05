"""Taking a backup of a data path, whether its node runs or not, and putting one back.

Several backups share a folder; each adds what is new. Files that may grow without bound are never
read whole, and nothing is written to the data path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from penstock.core.errors import LockedError, StorageError
from penstock.core.units import MICROSECOND, SECOND
from penstock.storage.backup import manifest as manifests
from penstock.storage.backup.manifest import Entry, Manifest
from penstock.storage.backup.topic_files import QueueFiles, queue_files
from penstock.storage.backup.vault import Vault
from penstock.storage.epochs import LogEpochs
from penstock.storage.files.disk import Disk
from penstock.storage.files.temporary import is_temporary
from penstock.storage.identity import IDENTITY_FILE
from penstock.storage.log import DOOMED
from penstock.storage.queues.queue_chunks import DIRECTORY as QUEUES
from penstock.storage.store import TOPICS

_UNFINISHED: Final = ".restoring"
_LOST_AND_FOUND: Final = "lost+found"
_SEGMENT: Final = ".log"


class Backup(NamedTuple):
    """A backup: its name, its files, and the bytes that were new."""

    moment: str
    manifest: Manifest
    copied: int


def take(
    disk: Disk, data_path: str, folder: str, wall_ns: int, others: Sequence[str], keep: int = 0
) -> Backup:
    """Back up the topics of a data path and, before them, the files and folders ``others``.

    With ``keep``, only that number of backups stay, this one included. Raises StorageError.
    """
    disk.make_directory(folder)
    try:
        lock = disk.lock(folder)
    except LockedError as error:
        raise LockedError(f"{folder}: another backup is being taken there") from error
    try:
        earlier = {
            each: manifests.load(disk, folder, each) for each in manifests.moments(disk, folder)
        }
        vault = Vault(disk, folder, earlier.values())
        newest_ns = max((each.wall_ns for each in earlier.values()), default=0)
        # Behind the newest even if the clock was set back: names are in the order of backups.
        made = Manifest(os.path.abspath(data_path), max(wall_ns, newest_ns + MICROSECOND))
        made.entries = [*_others(disk, data_path, others, vault), *_queues(disk, data_path, vault)]
        moment = _name(made.wall_ns)
        manifests.save(disk, folder, moment, made)
        if keep:
            _forget(disk, folder, {**earlier, moment: made}, keep, vault)
        return Backup(moment, made, vault.copied)
    finally:
        lock.release()


def _name(wall_ns: int) -> str:
    at = datetime.fromtimestamp(wall_ns // SECOND, UTC)
    return f"{at:%Y%m%dT%H%M%S}.{wall_ns % SECOND // MICROSECOND:06d}Z"


def _others(disk: Disk, data_path: str, others: Sequence[str], vault: Vault) -> list[Entry]:
    entries = []
    for path in (each for name in others for each in _below(disk, data_path, name)):
        data = disk.read_file(os.path.join(data_path, path))
        if data is not None:
            entries.append(vault.keep(path, data))
    return entries


def _below(disk: Disk, data_path: str, name: str) -> list[str]:
    """The files in a folder of the data path, or the one file of that name."""
    if not os.path.isdir(os.path.join(data_path, name)):
        return [name]
    paths = [os.path.join(name, each) for each in disk.list(os.path.join(data_path, name))]
    return [path for path in paths if not is_temporary(path)]


def _queues(disk: Disk, data_path: str, vault: Vault) -> list[Entry]:
    """The files of all topics, one topic after the other; then what their logs have got meanwhile.

    A message that moves to another topic, as a dead letter does, is published there before it is
    done where it was. So all logs are looked at once more when the last journal was read.
    """
    found: dict[str, dict[str, Entry]] = {}
    for _ in range(2):
        for name in disk.list(os.path.join(data_path, TOPICS)):
            if name.endswith(DOOMED):
                continue
            below = os.path.join(TOPICS, name)
            with queue_files(disk, os.path.join(data_path, below)) as files:
                if files is not None:
                    known = found.setdefault(below, {})
                    known.update({each.path: each for each in _new(below, files, vault, known)})
    return [entry for known in found.values() for entry in known.values()]


def _new(
    below: str, files: QueueFiles, vault: Vault, known: Mapping[str, Entry]
) -> Iterator[Entry]:
    """All files of a topic; of one that is known already what its log and the index of its queues
    have got since, if that is the same log and goes on where it was left.
    """
    growing = files.growing
    newest = max((path for path in known if path.endswith(_SEGMENT)), default=None)
    if newest is None:
        for name, data in files.small.items():
            yield vault.keep(os.path.join(below, name), data)
    else:
        path = os.path.join(below, IDENTITY_FILE)
        if known.get(path) != vault.keep(path, files.small.get(IDENTITY_FILE, b"")):
            return
        known_end = os.path.basename(newest)
        growing = {
            name: file
            for name, file in growing.items()
            if not name.endswith(_SEGMENT) or name >= known_end
        }
        had_index = any(path.startswith(os.path.join(below, QUEUES)) for path in known)
        has_index = any(name.startswith(QUEUES) for name in growing)
        if known_end not in growing or has_index != had_index:
            return  # a new index tells nothing of what the log has let go since
    for name, file in growing.items():
        path = os.path.join(below, name)
        yield vault.grow(path, path, file.read, file.end)


def _forget(disk: Disk, folder: str, known: dict[str, Manifest], keep: int, vault: Vault) -> None:
    kept = sorted(known)[-keep:]
    for moment in known.keys() - set(kept):
        manifests.remove(disk, folder, moment)
    # After the manifests: one whose files are gone would look like a damaged backup.
    vault.prune([known[moment] for moment in kept])


def put_back(disk: Disk, folder: str, moment: str, data_path: str) -> Manifest:
    """Write a backup to a data path that is not there or empty; all of it or nothing.

    An epoch of its logs begins: readers may have seen other messages at offsets that come.
    Raises StorageError.
    """
    data_path = os.path.realpath(data_path)  # no folder can take the place of a link to one
    is_mount = os.path.ismount(data_path)
    expected = {_UNFINISHED, _LOST_AND_FOUND} if is_mount else set()
    if set(disk.list(data_path)) - expected:
        raise StorageError(f"{data_path} is not empty; a backup is restored into a new data path")
    manifest = manifests.load(disk, folder, moment)
    # A mount takes no other folder in its place, and files come from another disk by copying only.
    unfinished = (
        os.path.join(data_path, _UNFINISHED) if is_mount else data_path.rstrip("/") + _UNFINISHED
    )
    disk.remove_tree(unfinished)
    disk.make_directory(unfinished)
    vault = Vault(disk, folder, [])
    directories = {unfinished}
    for entry in manifest.entries:
        target = os.path.join(unfinished, entry.path)
        vault.restore(entry, target)
        directories.add(os.path.dirname(target))
    LogEpochs(disk, unfinished).restored()
    for directory in sorted(directories):
        disk.sync_directory(directory)
    if is_mount:
        for name in disk.list(unfinished):
            disk.rename(os.path.join(unfinished, name), os.path.join(data_path, name))
        disk.remove_tree(unfinished)
        disk.sync_directory(data_path)
    else:
        disk.rename(unfinished, data_path)
        disk.sync_directory(os.path.dirname(os.path.abspath(data_path)))
    return manifest
