"""``penstock backup`` and ``penstock restore``: what they take, put back and print."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.cli.doctor.data_path import examine_data_path
from penstock.cli.doctor.doctor_command import print_report
from penstock.cli.shared.data_paths import BESIDE_TOPICS, NO_DATA_PATH, is_data_path
from penstock.cli.shared.dialects import register_dialects
from penstock.cli.shared.pipes import quiet_pipe
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.counted import counted
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.moments import rfc3339
from penstock.core.reasons import system_words
from penstock.storage.backup import manifest as manifests
from penstock.storage.backup.backup import put_back, take
from penstock.storage.files.disk import OsDisk


def run_backup(folder: Path, data_path: Path, *, keep: int) -> None:
    """Take a backup and say what was new. Raises PenstockError."""
    try:
        is_one = is_data_path(str(data_path))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{data_path} does not exist; name nsqd's data path, or mqbroker's store"
        ) from error
    except OSError as error:  # of folders that are closed to whoever runs this, mostly
        raise PenstockError(f"{data_path} cannot be read: {system_words(error)}") from error
    if not is_one:
        raise ConfigError(f"{data_path} is {NO_DATA_PATH}")
    _check_folder(folder)
    taken = take(OsDisk(), str(data_path), str(folder), SYSTEM_CLOCK.wall_ns(), BESIDE_TOPICS, keep)
    files = counted(len(taken.manifest.entries), "file")
    print(
        f"backup {taken.moment}: {files}, {counted(taken.manifest.nbytes, 'byte')}, "
        f"{taken.copied:,} of them new"
    )


def run_list(folder: Path) -> None:
    """Print the backups of a folder, the oldest first. Raises PenstockError."""
    disk = OsDisk()
    with quiet_pipe():
        for moment in manifests.moments(disk, str(folder)):
            found = manifests.load(disk, str(folder), moment)
            print(
                f"{moment}  {counted(len(found.entries), 'file')}, "
                f"{counted(found.nbytes, 'byte')}, of {found.data_path}"
            )


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder")


def run_restore(folder: Path, data_path: Path, moment: str | None) -> None:
    """Put a backup back, by default the newest, and examine it. Raises PenstockError."""
    disk = OsDisk()
    _check_folder(folder)
    known = manifests.moments(disk, str(folder))
    if not known:
        raise ConfigError(f"{folder} has no backup: name the folder that penstock backup wrote to")
    if moment is not None and moment not in known:
        raise ConfigError(f"{folder} has no backup {moment}; it has {', '.join(known[-3:])}")
    path = os.path.abspath(data_path)
    restored = put_back(disk, str(folder), moment or known[-1], path)
    register_dialects()
    report = examine_data_path(path, SYSTEM_CLOCK.wall_ns())
    print_report(report)
    print(f"{path} is as {restored.data_path} was at {rfc3339(restored.wall_ns)}")
    if report.errors:
        raise PenstockError(f"{path} was restored with damage, as above")
