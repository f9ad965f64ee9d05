"""A data path under the doctor's eyes: a start in memory alone, and what a start takes on trust.

What the next start would report, cut off or remove is found by the code of the start itself, over a
disk of which nothing changes.
"""

from __future__ import annotations

import logging
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.cli.doctor.queue import LATER_REMEDY, Queue
from penstock.cli.doctor.report import Finding, Report, error, warning
from penstock.cli.shared.data_paths import NO_DATA_PATH, is_data_path, own_files
from penstock.core.counted import counted
from penstock.core.errors import ConfigError, LaterFormatError, LockedError, StorageError
from penstock.core.names import is_valid_name
from penstock.core.reasons import system_words
from penstock.node import metadata
from penstock.nsq.nsqd.http.staged_parts import FOLDER as STAGED
from penstock.nsq.takeover.diskqueue import find_queues
from penstock.replication.copy import TABLES
from penstock.rocketmq.broker.state import seal
from penstock.rocketmq.broker.state.files import BACKUP
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.files.disk import Disk
from penstock.storage.files.disk_space import DiskSpace
from penstock.storage.files.dry_disk import DryDisk
from penstock.storage.files.part_files import PartFiles
from penstock.storage.log import LogOptions
from penstock.storage.store import Store

USED_MAX: Final = 90
"""Hundredths of a file system beyond which it counts as nearly full."""
_FULL: Final = 0.99
_NAMED_MAX: Final = 5
_LOCKS: Final = Path("/proc/locks")
_PYTHON_VALUES: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})
"""The options of Python that are followed by a value."""


def examine_data_path(
    path: str, now_ns: int, *, quick: bool = False, used_max: int = USED_MAX
) -> Report:
    """Look at the data path of a node that does not run; nothing in it changes.

    With ``quick``, messages that an index vouches for are not read. A node that runs has its data
    path locked, and its files change meanwhile: then only what can be said of them is.
    """
    where = f"data path {path}"
    if (fault := _no_data_path(path, where)) is not None:
        return Report([fault], [])
    # First what needs no lock, so that it is said of a running node's path, too.
    found = [*disk_space(DiskSpace.of(path), where, used_max), *examine_permissions(path)]
    disk = DryDisk()
    with _silence():
        try:
            store = Store(disk, path, LogOptions())
        except LockedError:
            found.append(_locked(path, where))
            return Report(found, [f"{where}, but for its files, which a running node changes"])
        except LaterFormatError as problem:
            found.append(error("later-format", where, str(problem), LATER_REMEDY))
            return Report(found, [where])
        except StorageError as problem:
            found.append(_unreadable(where, str(problem)))
            return Report(found, [where])
        try:
            return _examined(disk, store, found, now_ns, quick=quick)
        finally:
            store.close()


def _examined(
    disk: DryDisk, store: Store, found: list[Finding], now_ns: int, *, quick: bool
) -> Report:
    path = store.data_path
    messages = 0
    for topic, number in store.queues():
        queue = Queue(disk, store, topic, number)
        found += queue.examine(now_ns, quick=quick)
        messages += queue.messages
    found += _names(store)
    found += _go_files(disk, path)
    found += examine_tables(disk, path)
    # For what loading would remove: the disk notes it in `removed`.
    list(PartFiles(disk, os.path.join(path, STAGED), durably=False).load())
    found += _leftovers(path, disk.removed)
    topics = counted(len(store.queues()), "topic")
    return Report(found, [f"data path {path}: {topics}, {counted(messages, 'message')}"])


def disk_space(space: DiskSpace | None, where: str, used_max: int) -> Iterator[Finding]:
    """Judge a data path's file system, of which ``used_max`` hundredths may be used."""
    if space is None or space.used_share * 100 < used_max:
        return
    level = error if space.used_share >= _FULL else warning
    yield level(
        "disk-space",
        where,
        f"its file system is {space.used_share:.0%} full, "
        f"{space.free >> 20:,} MiB are free; publishes are refused when it is full",
        "Make room, let consumers catch up, or bound the log: --retention-bytes, --max-bytes.",
    )


def _locked(path: str, where: str) -> Finding:
    return warning(
        "locked",
        where,
        f"it is in use by {holder_of(path)}, so its files were not examined",
        "Ask the running node itself (--nsqd-http-address=HOST:PORT), or stop it first.",
    )


def is_directory(path: str) -> bool:
    """True if it is one, False if it is not there. Raises OSError where that cannot be known."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _no_data_path(path: str, where: str) -> Finding | None:
    """The finding for a folder on which no node has run; None for a data path."""
    try:
        if not is_directory(path):
            if os.path.exists(path):
                what, remedy = "it is not a directory", "Name one: --data-path."
            else:
                what = "the directory does not exist"
                remedy = (
                    f"Make it (mkdir -p {shlex.quote(path)}), or name the right one: --data-path."
                )
            return error("no-data-path", where, what, remedy)
    except OSError as problem:
        return _unreadable(where, f"it cannot be reached: {system_words(problem)}")
    try:
        if is_data_path(path):
            return None
        what = f"it is {NO_DATA_PATH}" if os.listdir(path) else "it is empty: no node has run on it"
    except OSError as problem:
        return _unreadable(where, f"it cannot be read: {system_words(problem)}")
    return error(
        "no-data-path",
        where,
        what,
        "Name the folder that nsqd has as --data-path, or mqbroker as storePathRootDir.",
    )


def _unreadable(where: str, problem: str) -> Finding:
    return error(
        "unreadable",
        where,
        problem,
        "Run this as the user that nsqd runs as; if it is the disk, replace it and "
        "restore a backup.",
    )


def _names(store: Store) -> Iterator[Finding]:
    """Look at nsqd.dat, and at what it names."""
    where = f"{store.data_path}/{metadata.FILE_NAME}"
    try:
        entries = metadata.read(store)
    except (ConfigError, StorageError) as problem:
        yield error(
            "metadata",
            where,
            str(problem),
            "nsqd does not start. Put back a good copy, "
            "or move the file away: topics and channels come from the log and its "
            "cursors, only pauses are forgotten.",
        )
        return
    topics = {topic for topic, _ in store.queues()}
    for entry in entries:
        for name in (entry.name, *(channel for channel, _ in entry.channels)):
            if not is_valid_name(name):
                yield warning(
                    "name",
                    where,
                    f"{name!r} is not a name of a topic or channel",
                    "A start leaves it out; correct it.",
                )
        if topics and is_valid_name(entry.name) and entry.name not in topics:
            yield warning(
                "no-files",
                where,
                f"the topic {entry.name} is listed and has no files",
                "A start makes it, empty. If it had messages, restore a backup first.",
            )


def _go_files(disk: DryDisk, path: str) -> Iterator[Finding]:
    queues = find_queues(disk.list(path))
    if queues:
        yield warning(
            "old-format",
            f"data path {path}",
            f"{counted(len(queues), 'queue')} of Go's "
            f"nsqd are not imported yet: {_listed([each.name for each in queues])}",
            "The next start of nsqd imports them, all or none, and moves Go's files aside.",
        )


def _leftovers(path: str, removed: set[str]) -> Iterator[Finding]:
    if removed:
        names = sorted(os.path.relpath(each, path) for each in removed)
        yield warning(
            "leftovers",
            f"data path {path}",
            f"{counted(len(names), 'file')} that a killed process has left: {_listed(names)}",
            "They hold nothing that was "
            "promised. The next start removes them; --repair does it now.",
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX:,} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


@contextmanager
def _silence() -> Iterator[None]:
    """Have the code of the start log nothing: what it finds is reported in other words."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def holder_of(directory: str, locks: Path = _LOCKS) -> str:
    """The holder of the lock on a directory, in words; Linux alone says which process it is."""
    inode = str(os.stat(directory).st_ino)
    try:
        lines = locks.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        # "1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF": process, device and inode
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
            process = f"process {fields[4]}"
            return f"{name} ({process})" if (name := _program_of(fields[4])) else process
    return "another process"


def _program_of(pid: str) -> str:
    """The name of the program that a process runs; empty if that cannot be seen."""
    try:
        words = Path("/proc", pid, "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    return program_name(words)


def program_name(words: Sequence[str]) -> str:
    """The program of a command line: of Python's its script or module, not Python itself."""
    if not (first := os.path.basename(words[0])).startswith("python"):
        return first
    following = iter(words[1:])
    for word in following:
        if word == "-m":
            return next(following, first).rpartition(".")[2]
        if word in _PYTHON_VALUES:
            next(following, None)
        elif not word.startswith("-"):
            return os.path.basename(word) or first
    return first


def examine_permissions(path: str) -> Iterator[Finding]:
    """Look for files of a node that nsqd cannot use, or that anybody may change.

    They are compared with the owner of the path. What else is in it, and is not a node's, is left
    out: a data path may be the home of a user, or the root of a disk.
    """
    owner = os.stat(path).st_uid
    unusable, foreign, open_to_all = _Faulty(path), _Faulty(path), _Faulty(path)
    for top, each, found in _everything(path):
        wanted = stat.S_IRWXU if stat.S_ISDIR(found.st_mode) else stat.S_IRUSR | stat.S_IWUSR
        if found.st_mode & wanted != wanted:
            unusable.add(top, each)
        if found.st_uid != owner:
            foreign.add(top, each)
        # Links have all permissions on Linux, which mean nothing.
        if found.st_mode & stat.S_IWOTH and not stat.S_ISLNK(found.st_mode):
            open_to_all.add(top, each)
    for level, faulty, what in (
        (error, unusable, "its owner may not read and write"),
        (error, foreign, "belongs to another user than the data path does"),
        (warning, open_to_all, "may be changed by everybody"),
    ):
        if faulty.first:
            yield level("permissions", faulty.where, what, faulty.remedy)


class _Faulty:
    """The files below a data path that have one fault; ``tops`` is how a shell names them."""

    def __init__(self, path: str) -> None:
        self.first = ""
        self._count = 0
        self._path = path
        self._tops: dict[str, None] = {}

    def add(self, top: str, name: str) -> None:
        """Add a file, and the file or folder of the data path that it is or is in."""
        self.first = self.first or name
        self._count += 1
        self._tops[top] = None

    @property
    def where(self) -> str:
        """The first file, and how many others."""
        return self.first + (f" and {counted(self._count - 1, 'other')}" if self._count > 1 else "")

    @property
    def remedy(self) -> str:
        """The commands for these files and folders alone: a data path may have others in it."""
        folder = shlex.quote(self._path)
        below = " ".join(f"{folder}/{top}" for top in self._tops if top)
        commands = [f"chown USER {folder} && chmod u+rwX,o-w {folder}"] if "" in self._tops else []
        if below:
            commands.append(f"chown -R USER {below} && chmod -R u+rwX,o-w {below}")
        return f"{' && '.join(commands)}, where USER runs nsqd."


def _everything(path: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """The path, under an empty name, and a node's files in it, each under what names it or the
    folder it is in to a shell; what cannot be listed is left to those who read it.
    """
    yield "", path, os.stat(path)
    for name, top in sorted(own_files(os.listdir(path)).items()):
        first = os.path.join(path, name)
        below = (
            os.path.join(directory, each)
            for directory, folders, files in os.walk(first)
            for each in (*folders, *files)
        )
        for each in (first, *below):
            try:
                yield top, each, os.lstat(each)
            except OSError:  # removed by a running node, or in a folder that is closed to us
                continue


def examine_tables(disk: Disk, data_path: str) -> Iterator[Finding]:
    """Read each table of a RocketMQ broker as a start would.

    With its previous content where there is any: topics, groups, committed offsets.
    """
    directory = os.path.join(data_path, TABLES)
    for name in disk.list(directory):
        path = os.path.join(directory, name)
        if not name.endswith(".json"):
            continue
        if _is_readable(disk.read_file(path)):
            if seal.is_broken(disk.read_file(path) or b""):
                yield warning(
                    "table",
                    path,
                    "it is not as the broker wrote it",
                    f"A start takes its previous content from {name}{BACKUP} if that is "
                    "as it was written. If you have edited it, delete its member "
                    f"{seal.MEMBER}.",
                )
        elif _is_readable(disk.read_file(path + BACKUP)):
            yield warning(
                "table",
                path,
                "it is damaged",
                "A start takes its previous content from "
                f"{name}{BACKUP}; changes after that are lost.",
            )
        else:
            yield error(
                "table",
                path,
                f"it is damaged, and so is {name}{BACKUP}, or it is missing",
                "The broker does not start. Put back a good copy of one, or delete both "
                "to begin without their content.",
            )


def _is_readable(data: bytes | None) -> bool:
    try:
        fastjson.loads(data or b"")
    except BodyError:
        return False
    return True
