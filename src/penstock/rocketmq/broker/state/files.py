"""The broker's tables in files: JSON as Java writes it, ``<store path>/config/<name>``.

A file is replaced atomically. Its previous content is kept as ``<name>.bak`` and is used if the
file itself is empty, damaged, missing or not as it was written (``seal``): one wrong digit can turn
an offset into a later one, behind messages that nobody has read. If neither can be read, the broker
does not start until an operator has decided: no table silently begins at 0. If both are gone, or
the best there is has changed, it may be an operator's doing: the broker starts with what is there
and logs it as an error.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Container
from typing import Any, Final

from penstock.core.errors import ConfigError, DiskFullError, StorageError
from penstock.net.tasks import spawn
from penstock.rocketmq.broker.state import seal
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.files.disk import Disk
from penstock.storage.files.temporary import remove_temporaries

TOPICS: Final = "topics.json"
GROUPS: Final = "subscriptionGroup.json"
OFFSETS: Final = "consumerOffset.json"
ALWAYS: Final = frozenset({TOPICS, GROUPS, OFFSETS})
"""The tables that are written in the first seconds of every broker's life, Java's or ours."""
BACKUP: Final = ".bak"
DAMAGED: Final = ".damaged"
"""The suffix of the copy of a file that could not be read."""
_CHANGED: Final = "is not as it was written"
_INTERVAL_S_MIN: Final = 0.1

logger = logging.getLogger("penstock.mqbroker")

Dump = Callable[[], Any]
Load = Callable[[Any], None]


class StateFiles:
    """The files of one broker.

    ``dump`` gives a copy of a table as JSON values, which may be written while the table changes;
    ``load`` takes such values over and raises BodyError when they make no sense.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        interval_s: Callable[[], float] = lambda: 5.0,
        own: Container[str] | None = None,
    ) -> None:
        """Make the directory. Raises StorageError if it cannot be made.

        ``own`` are the names that are written, all by default: a slave's tables are its master's.
        """
        self.disk = disk
        self._own = own
        self._directory = directory
        self._interval_s = interval_s
        self._files: dict[str, _File] = {}
        self._task: asyncio.Task[None] | None = None
        disk.make_directory(directory)
        remove_temporaries(disk, directory)
        # Before any file is written: afterwards a lost table looks like that of a new broker.
        self._was_used = bool(ALWAYS.intersection(disk.list(directory)))

    def add(self, name: str, dump: Dump, load: Load) -> None:
        """Keep a table in a file, and load it when the file is there.

        Raises ConfigError when the file and its backup are damaged, StorageError when they cannot
        be read.
        """
        path = f"{self._directory}/{name}"
        file = _File(self.disk, path, dump, load)
        if not file.load() and self._was_used and name in ALWAYS:
            logger.error(
                "%s is not there, nor is its backup, though this broker has run before: "
                "beginning without its content",
                path,
            )
        self._files[name] = file

    def save(self, name: str) -> None:
        """Write a file now, unless nothing changed; in whatever thread. Raises StorageError.

        A broker starts on a full disk, where consumers make room: before ``start`` what finds no
        room is written later.
        """
        if not self._writes(name):
            return
        try:
            self._files[name].save()
        except DiskFullError as error:
            if self._task is not None:
                raise
            logger.error("failed to write the broker's state, trying again later - %s", error)

    def _writes(self, name: str) -> bool:
        return self._own is None or name in self._own

    def reload(self, name: str) -> None:
        """Load a table again whose file somebody else has replaced. Raises StorageError."""
        if name in self._files:
            self._files[name].reload()

    async def save_aside(self, name: str) -> None:
        """Write a file unless nothing changed; a thread does the writing. Raises StorageError."""
        if self._writes(name):
            file = self._files[name]
            await asyncio.to_thread(file.write, *file.take())

    def start(self) -> None:
        """Write what changed, now and from time to time."""
        self._task = spawn(self._save_often(), "state files")

    async def _save_often(self) -> None:
        while True:
            await self._save_all()
            await asyncio.sleep(max(_INTERVAL_S_MIN, self._interval_s()))

    async def _save_all(self) -> None:
        for file in [file for name, file in self._files.items() if self._writes(name)]:
            try:
                # The copy is made here, and turned into bytes elsewhere: offsets may be many.
                await asyncio.to_thread(file.write, *file.take())
                file.is_failing = False
            except Exception as error:  # the others are written, and this one is tried again
                if not file.is_failing:
                    logger.error(
                        "failed to write the broker's state - %s",
                        error,
                        exc_info=not isinstance(error, StorageError),
                    )
                file.is_failing = True

    async def close(self) -> None:
        """Write all that changed; failures are logged."""
        if self._task is not None:
            self._task.cancel()
        # Once more, after the task: what changed since its last round.
        await self._save_all()


class _File:
    """One table's file. Copies are numbered, so that an older one never replaces a newer one."""

    def __init__(self, disk: Disk, path: str, dump: Dump, load: Load) -> None:
        self._disk = disk
        self._path = path
        self._dump = dump
        self._load = load
        self._taking = threading.Lock()
        self._writing = threading.Lock()
        self._content: bytes | None = None
        self._taken = 0
        self._written = 0
        self.is_failing = False

    def reload(self) -> None:
        """Load the table if its file is another one now, and whole. Raises StorageError."""
        data = self._disk.read_file(self._path)
        if data == self._content:
            return
        # The checksum first: what follows it loads the table as well.
        problem = _changed(data) or _problem(data, self._load)
        if problem is None:
            self._content = data
        else:
            logger.error("%s %s: it is left as it was", self._path, problem)

    def load(self) -> bool:
        """Load the table; False if there is nothing to load. Raises ConfigError, StorageError."""
        load, backup = self._load, self._path + BACKUP
        data, before = self._disk.read_file(self._path), self._disk.read_file(backup)
        if data is None and before is None:
            return False
        problem = _changed(data) or _problem(data, load)
        if problem is None:
            self._content = data
            return True
        useless = _changed(before) or _problem(before, load)
        if useless is None:
            self._take_backup(problem, data, before)
        elif problem == _CHANGED and _problem(data, load) is None:
            logger.error(
                "%s %s, and %s %s: if nobody has edited it, it is damaged",
                self._path,
                problem,
                backup,
                useless,
            )
            self._content = data
        elif useless == _CHANGED and _problem(before, load) is None:
            self._take_backup(problem, data, before)
        else:
            raise ConfigError(
                f"{self._path} {problem}, and {backup} {useless}: put back a good copy of one, "
                "or delete both to begin without their content"
            )
        return True

    def _take_backup(self, problem: str, data: bytes | None, before: bytes | None) -> None:
        """Put the previous content, which is loaded, in the file's place, and keep the file."""
        assert before is not None
        damaged = self._path + DAMAGED
        remedy = f'; if it was edited, put {damaged} back without its "checksum"'
        logger.error(
            "%s %s: taking its previous content from %s; later changes are lost%s",
            self._path,
            problem,
            self._path + BACKUP,
            remedy if problem == _CHANGED else "",
        )
        # The damaged one is kept beside: somebody may repair by hand what the backup lacks.
        if data:
            self._disk.replace_file(damaged, data)
        self._disk.replace_file(self._path, before)
        self._content = before

    def take(self) -> tuple[int, Any]:
        """A copy of the table, with its number."""
        with self._taking:
            self._taken += 1
            return self._taken, self._dump()

    def save(self) -> None:
        self.write(*self.take())

    def write(self, number: int, value: Any) -> None:
        """Write a copy, in whatever thread. Raises StorageError."""
        data = seal.sealed(fastjson.dumps(value))
        with self._writing:
            # A thread may be late with an older copy; the newer one is in the file already.
            if number < self._written:
                return
            if data != self._content:
                if self._content:
                    # Not synced: it is of use only if the file below is damaged, which is synced
                    # itself.
                    self._disk.replace_file(self._path + BACKUP, self._content, sync=False)
                self._disk.replace_file(self._path, data)
                self._content = data
            self._written = number


def _changed(data: bytes | None) -> str | None:
    """The problem of a file whose content is not what its checksum was computed of."""
    return _CHANGED if data is not None and seal.is_broken(data) else None


def _problem(data: bytes | None, load: Load) -> str | None:
    """The reason that a file's content cannot be used; None if ``load`` has taken it over."""
    if data is None:
        return "is not there"
    if not data.strip(b"\0 \r\n\t"):
        return "is empty"
    try:
        value = fastjson.loads(data)
        if isinstance(value, dict):
            value.pop(seal.MEMBER, None)
        load(value)
    except BodyError as error:
        return f"is damaged ({error})"
    return None
