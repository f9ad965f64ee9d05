"""The folder of staged files: one query's, numbered without a gap, each whole or not there.

``staging.json`` says whose the folder is. Only the process that holds the folder's lock writes or
removes files; tasks read them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa

from penstock.core.errors import LockedError, StorageError
from penstock.spark.errors import LostError, SourceError
from penstock.storage.files.disk import Disk, Lock, OsDisk
from penstock.storage.files.temporary import remove_temporaries

_IDENTITY: Final = "staging.json"
_NAME: Final = re.compile(r"(\d{12})\.arrow")


class StagedFile(NamedTuple):
    """The rows and bytes of a staged file."""

    rows: int
    nbytes: int


class Folder:
    """The folder at a path; opened by the one process that stages."""

    def __init__(self, path: str, disk: Disk | None = None) -> None:
        self.path = path
        self.id = ""
        """Made with the folder. A checkpoint names it beside the number of a file."""
        self.files: dict[int, StagedFile] = {}
        """The files that are there, by number, ascending."""
        self.nbytes = 0
        """Bytes of all of them."""
        self._next = 0  # files that are removed give their numbers to no others
        self._disk = disk or OsDisk()
        self._lock: Lock | None = None

    def open(self, topic: str, channel: str) -> None:
        """Lock the folder and learn what is in it; made if it is not there.

        Raises LockedError while another query holds it, and SourceError if it is another channel's
        or cannot be used.
        """
        try:
            self._disk.make_directory(self.path)
            # Before anything is read: another process may be staging here, with temporary files.
            self._lock = self._disk.lock(self.path)
            self._learn(topic, channel)
        except LockedError:
            raise
        except StorageError as error:
            self.close()
            raise SourceError(f"stagingLocation cannot be used: {error}") from error
        except SourceError:
            self.close()
            raise

    def _learn(self, topic: str, channel: str) -> None:
        self.id = self._identity(topic, channel)
        remove_temporaries(self._disk, self.path)
        for name in self._disk.list(self.path):
            if found := _NAME.fullmatch(name):
                self._know(int(found[1]), self._look_at(name))

    def write(self, batch: pa.RecordBatch, least: int) -> int:
        """Stage a batch, durably, as the next file, numbered ``least`` or higher; its number.

        Raises StorageError.
        """
        # After a start only the caller's checkpoint knows the numbers of files that are removed.
        number = max(least, self._next)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        self._disk.replace_file(file_path(self.path, number), data.to_pybytes())
        self._know(number, StagedFile(batch.num_rows, data.size))
        return number

    def remove_below(self, number: int) -> None:
        """Remove files whose batches are committed. Raises SourceError."""
        try:
            for done in [each for each in self.files if each < number]:
                self._disk.remove(file_path(self.path, done))
                self.nbytes -= self.files.pop(done).nbytes
        except StorageError as error:
            raise SourceError(f"a staged file cannot be removed: {error}") from error

    def close(self) -> None:
        """Let another process have it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _know(self, number: int, file: StagedFile) -> None:
        self.files[number] = file
        self.nbytes += file.nbytes
        self._next = max(self._next, number + 1)

    def _identity(self, topic: str, channel: str) -> str:
        path = os.path.join(self.path, _IDENTITY)
        whose = {"topic": topic, "channel": channel}
        data = self._disk.read_file(path)
        if data is None:
            known = {"id": uuid4().hex[:16], **whose}
            self._disk.replace_file(path, json.dumps(known).encode())
            return known["id"]
        try:
            known = json.loads(data)
            known_id, found = str(known["id"]), {name: known[name] for name in whose}
        except (ValueError, KeyError, TypeError):
            raise SourceError(f"{path} is damaged: it should say whose the folder is") from None
        if found != whose:
            raise SourceError(
                f"stagingLocation {self.path} has messages of channel {found['channel']} of topic "
                f"{found['topic']}: give each query a folder that no other has"
            )
        return known_id

    def _look_at(self, name: str) -> StagedFile:
        path = os.path.join(self.path, name)
        nbytes = _size(path)
        try:
            return StagedFile(sum(batch.num_rows for batch in _batches(path)), nbytes)
        except (OSError, pa.ArrowInvalid):
            return StagedFile(0, nbytes)  # whoever reads it is told


def file_path(folder: str, number: int) -> str:
    """The place of a file."""
    return os.path.join(folder, f"{number:012d}.arrow")


def read(folder: str, number: int) -> list[pa.RecordBatch]:
    """The batches of a staged file, in the memory of the page cache. Raises LostError."""
    path = file_path(folder, number)
    try:
        return list(_batches(path))
    except FileNotFoundError:
        raise LostError(missing(folder, [number])) from None
    except (OSError, pa.ArrowInvalid) as error:
        raise LostError(
            f"staged file {path} cannot be read: {error}. What it held was taken off the channel; "
            "restore it, or set failOnDataLoss=false to go on without it"
        ) from error


def missing(folder: str, numbers: Sequence[int]) -> str:
    """The sentence for files that are not there."""
    which = file_path(folder, numbers[0]) + (f" and {len(numbers) - 1} more" if numbers[1:] else "")
    return (
        f"staged file {which} is missing on this machine: stagingLocation must be a folder that "
        "driver and executors share, from which nothing is removed. What it held was taken off the "
        "channel; restore it, or set failOnDataLoss=false to go on without it"
    )


def _batches(path: str) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as source:
        file = pa.ipc.open_file(source)
        for index in range(file.num_record_batches):
            yield file.get_batch(index)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
