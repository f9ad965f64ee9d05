"""A simulated disk that keeps all synced writes, and a random part of the others, in a power cut.

It is used where no image can be mounted. The node notes the content of each file and directory at
each successful sync. After a cut a file has that content, its final content, or the beginning of
the final content; a directory has the names of its last sync, or the final ones.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from penstock.storage.files import disk


@dataclass(frozen=True)
class Noted:
    """Notes, below `notes`, of the content of the folder `data` that is on stable storage."""

    data: Path
    notes: Path

    def __call__(self) -> None:
        """Note all content that exists when the program begins as synced."""
        shutil.rmtree(self.notes, ignore_errors=True)
        for name in ("keys", "files", "names"):
            (self.notes / name).mkdir(parents=True)
        noting = _Os(self)
        for folder in [self.data, *filter(Path.is_dir, self.data.rglob("*"))]:
            for path in (folder, *folder.iterdir()):
                noting.name_new(path.stat())
        for path in [self.data, *self.data.rglob("*")]:
            noting.note_path(path)
        disk.os = noting  # type: ignore[assignment,attr-defined]

    def key(self, status: os.stat_result) -> str:
        """A key for this file or folder that is never used again, unlike its inode number."""
        return f"{status.st_ino}.{(self.notes / 'keys' / str(status.st_ino)).read_text()}"

    def names(self, folder: str | int | Path) -> dict[str, tuple[bool, str]]:
        """The names in a folder, each with True for a folder and its key.

        A file that another thread is just creating may be left out.
        """
        found = {}
        for entry in os.scandir(folder):
            with suppress(FileNotFoundError):
                within = folder if isinstance(folder, int) else None
                status = os.stat(entry.name if within else entry.path, dir_fd=within)
                found[entry.name] = stat.S_ISDIR(status.st_mode), self.key(status)
        return found

    def cut_power(self, rng: random.Random) -> None:
        """Replace the data by the disk's content after a cut. The process must have ended."""
        left = self.data.with_name("left")
        self._rebuild(self.key(self.data.stat()), self.data, left, rng)
        shutil.rmtree(self.data)
        left.rename(self.data)

    def _rebuild(self, key: str, live: Path | None, left: Path, rng: random.Random) -> None:
        left.mkdir()
        noted = self.notes / "names" / key
        durable = json.loads(noted.read_text()) if noted.exists() else {}
        current: dict[str, Any] = (
            {name: list(each) for name, each in self.names(live).items()} if live else {}
        )
        chosen = current if live and rng.random() < 0.5 else durable
        for name, (is_folder, own) in chosen.items():
            here = live / name if live and current.get(name) == [is_folder, own] else None
            if is_folder:
                self._rebuild(own, here, left / name, rng)
            else:
                (left / name).write_bytes(self._content(own, here, rng))

    def _content(self, key: str, live: Path | None, rng: random.Random) -> bytes:
        noted = self.notes / "files" / key
        synced = noted.read_bytes() if noted.exists() else b""
        written = live.read_bytes() if live else synced
        cut = rng.choice((0, len(written), rng.randint(0, len(written))))
        return written[:cut] + synced[cut:]


class _Os:
    """The module `os` for `penstock.storage.files.disk`, which notes the synced content."""

    def __init__(self, noted: Noted) -> None:
        self._noted = noted
        self._serial = count()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, *more: Any) -> int:
        is_new = flags & os.O_CREAT and not os.path.exists(path)
        descriptor = os.open(path, flags, *more)
        if is_new:
            self.name_new(os.fstat(descriptor))
        return descriptor

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(path, mode)
        self.name_new(os.stat(path))

    def fsync(self, descriptor: int) -> None:
        self._sync(descriptor, os.fsync)

    def fdatasync(self, descriptor: int) -> None:
        self._sync(descriptor, os.fdatasync)

    def _sync(self, descriptor: int, sync: Callable[[int], None]) -> None:
        """Sync, and note the content from before: later writes may not be part of the sync."""
        note = self._note(descriptor)
        sync(descriptor)
        note()

    def name_new(self, status: os.stat_result) -> None:
        """Give a new file a key that no file had before."""
        self._write(Path("keys", str(status.st_ino)), str(next(self._serial)).encode())

    def note_path(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        self._note(descriptor)()
        os.close(descriptor)

    def _note(self, descriptor: int) -> Callable[[], None]:
        """A function that notes the content that this file or folder has now."""
        status = os.fstat(descriptor)
        key = self._noted.key(status)
        if stat.S_ISDIR(status.st_mode):
            names = json.dumps(self._noted.names(descriptor)).encode()
            return lambda: self._write(Path("names", key), names)
        data = Path(f"/proc/self/fd/{descriptor}").read_bytes()  # it may be open for writing only
        return lambda: self._write(Path("files", key), data)

    def _write(self, name: Path, data: bytes) -> None:
        new = self._noted.notes / f"{next(self._serial)}.new"
        new.write_bytes(data)
        new.rename(self._noted.notes / name)
