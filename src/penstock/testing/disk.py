"""A disk in memory that can fill up, fail, lose its power, and rot, on command.

``FaultyDisk`` satisfies ``penstock.storage.files.disk.Disk`` and keeps apart what was written from
what was synced. A *kill* of the process leaves all that was written; a *power cut* leaves what was
synced, and of the rest whatever the dice say: of each file any part of the bytes appended since,
of each directory any of the creations, renames and deletions since.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from penstock.core.chance import Chance
from penstock.core.errors import DiskFullError, LockedError, StorageError
from penstock.storage.files.disk import kind_of

# A disk writes these whole or not at all.
SECTOR_BYTES: Final = 512
RESERVED_MAX: Final = 2048
"""Far less than on a real disk, so that small logs come to its end, too."""

Operation = Literal[
    "open", "append", "read", "sync", "truncate", "replace", "remove", "list",
    "make_directory", "rename", "sync_directory",
]  # fmt: skip


class _Inode:
    """The content of a file: as it is, and as it is on stable storage."""

    __slots__ = ("clean", "data", "durable", "lost", "shrunk", "written")

    def __init__(self, data: bytes | bytearray = b"") -> None:
        self.data = bytearray(data)
        self.durable = bytearray()
        self.written = len(data)  # behind it are reserved zeros
        self.clean = 0  # what is before it was not written to since the last sync
        self.shrunk = False  # cut shorter since the last sync
        self.lost: list[tuple[int, int]] = []  # a failed sync marked these as clean

    def write(self, position: int, data: bytes) -> None:
        self._put(position, data)
        end = position + len(data)
        self.written = max(self.written, end)
        pieces = [((a, min(b, position)), (max(a, end), b)) for a, b in self.lost]
        self.lost = [(a, b) for pair in pieces for a, b in pair if a < b]

    def reserve(self, position: int, nbytes: int) -> None:
        self._put(position, bytes(nbytes))

    def _put(self, position: int, data: bytes) -> None:
        self.data[position : position + len(data)] = data
        self.clean = min(self.clean, position)

    def shrink(self, size: int) -> None:
        if size < len(self.data):
            self.shrunk = True
        del self.data[size:]
        self.written = min(self.written, size)
        self.clean = min(self.clean, size)

    def sync(self) -> None:
        self.durable[self.clean :] = self.data[self.clean :]
        self.clean = len(self.data)
        self.shrunk = False
        for start, end in self.lost:
            self.durable[start:end] = bytes(len(self.durable[start:end]))

    def fail_sync(self) -> None:
        """Keep what was not durable from ever being so, whatever a later sync says (ext4 and XFS),
        unless it is written again.
        """
        if self.written > self.clean:
            self.lost.append((self.clean, self.written))

    def rewrite(self, position: int) -> None:
        self.clean = min(self.clean, position)
        self.lost = [(start, min(end, position)) for start, end in self.lost if start < position]

    def after_power_cut(self, chance: Chance) -> bytearray:
        """The durable bytes and a random part of those written since, over reserved zeros too."""
        if self.shrunk and chance.below(2):
            return bytearray(self.durable)
        old = self.durable[: self.clean] if self.shrunk else self.durable
        end = self.clean + chance.below(max(0, self.written - self.clean) + 1)
        if end >= self.written or chance.below(4) == 0:
            end = max(end, self.written)
            end += chance.below(len(self.data) - end + 1)
        left = self.data[:end] + old[end:]
        self._spoil(left, old, chance)
        for start, stop in self.lost:
            left[start:stop] = bytes(len(left[start:stop]))
        return left

    def _spoil(self, left: bytearray, old: bytearray, chance: Chance) -> None:
        """Sectors arrive in any order: where one did not yet there is what was there before, and
        behind the old end zeros or anything.
        """
        if chance.below(2):
            return
        for sector in range(self.clean, len(left), SECTOR_BYTES):
            end = min(sector + SECTOR_BYTES, len(left))
            before = old[sector:end]
            nbytes_new = end - sector - len(before)
            match chance.below(6):
                case 0:
                    left[sector:end] = before + bytes(nbytes_new)
                case 1 if nbytes_new:
                    noise = bytes(chance.below(256) for _ in range(nbytes_new))
                    left[sector:end] = before + noise


@dataclass(slots=True)
class Fault:
    """An error to come: on the ``countdown``-th matching operation, ``times`` times in a row."""

    operation: Operation
    countdown: int
    times: int
    within: str  # part of the path
    code: int

    def strike(self, operation: Operation, path: str) -> bool:
        """Count an operation that it is for; True if that fails."""
        if operation != self.operation or self.within not in path or self.times == 0:
            return False
        self.countdown -= 1
        if self.countdown > 0:
            return False
        self.times -= 1
        return True


class FaultyFile:
    """A LogFile of a FaultyDisk."""

    def __init__(self, disk: FaultyDisk, path: str, inode: _Inode) -> None:
        self.path = path
        self.size = self._reserved = len(inode.data)
        self._disk = disk
        self._inode = inode
        self._power = disk.crashes
        self._closed = False

    def append(self, data: bytes | memoryview) -> None:
        """Append at the end that the handle knows, over what a failed append may have left."""
        self.size = self.write(self.size, data)

    def write(self, position: int, data: bytes | memoryview) -> int:
        self._check()
        end = position + len(data)
        try:
            self._disk.meet_faults("append", self.path)
            self._disk.take_room(max(0, end - self._reserved), self.path)
        except StorageError:
            self._inode.shrink(self.size)
            self._reserved = self.size
            if self._disk.leaves_partial_writes:
                self._inode.write(self.size, bytes(data)[: len(data) // 2])
            raise
        self._inode.write(position, bytes(data))
        self._reserved = max(self._reserved, end)
        return end

    def grow(self, size: int) -> None:
        self.size = size

    def read(self, position: int, nbytes: int) -> bytes:
        self._check()
        self._disk.meet_faults("read", self.path)
        return bytes(self._inode.data[position : position + nbytes])

    def sync(self) -> None:
        self._check()
        try:
            self._disk.meet_faults("sync", self.path)
        except StorageError:
            self._inode.fail_sync()
            raise
        self._inode.sync()
        self._disk.sync_count += 1

    def rewrite(self, position: int) -> None:
        self._check()
        self._disk.meet_faults("append", self.path)
        self._inode.rewrite(position)

    def write_out(self, start: int) -> None:
        """Nothing is promised, so nothing is done."""

    def reserve(self) -> None:
        self._check()
        nbytes = min(self.size, RESERVED_MAX)
        if self._reserved - self.size >= nbytes // 4:
            return
        with suppress(DiskFullError):
            self._disk.take_room(nbytes, self.path)
            self._inode.reserve(self._reserved, nbytes)
            self._reserved += nbytes

    def release(self) -> None:
        if self._power == self._disk.crashes and self._reserved > self.size:
            self._inode.shrink(self.size)
            self._reserved = self.size

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.meet_faults("truncate", self.path)
        self._inode.shrink(size)
        self.size = self._reserved = size

    def close(self) -> None:
        # Stricter than the real disk, where a second close does nothing: tests are to find it.
        assert not self._closed, f"{self.path} is closed twice"
        self.release()
        self._closed = True

    def _check(self) -> None:
        assert self._power == self._disk.crashes, f"{self.path} is used after a crash"
        if self._closed:
            raise StorageError(f"{self.path}: {os.strerror(errno.EBADF)}")


class FaultyLock:
    """A directory lock of a FaultyDisk; a crash releases it too."""

    def __init__(self, disk: FaultyDisk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def release(self) -> None:
        self._disk.unlock(self._directory)


class FaultyDisk:
    """A file system in memory. ``/`` and the directories given are there and durable."""

    def __init__(self, *directories: str) -> None:
        self.crashes = 0
        self.sync_count = 0
        self.leaves_partial_writes = False  # a failed append leaves bytes behind the file's size
        self._files: dict[str, _Inode] = {}
        self._directories = {"/", *directories}
        self._durable_files: dict[str, _Inode] = {}
        self._durable_directories = set(self._directories)
        self._renamed: list[tuple[str, _Inode]] = []
        self._locked: set[str] = set()
        self._faults: list[Fault] = []
        self._room: int | None = None

    # --- the Disk protocol ---------------------------------------------------------------------

    def open(self, path: str) -> FaultyFile:
        self.meet_faults("open", path)
        inode = self._files.get(path)
        if inode is None:
            self._need_directory(path)
            inode = self._files[path] = _Inode()
        return FaultyFile(self, path, inode)

    def list(self, directory: str) -> list[str]:
        self.meet_faults("list", directory)
        children = [*self._children(directory, self._files)]
        children += self._children(directory, self._directories)
        return sorted(os.path.basename(child) for child in children)

    def make_directory(self, path: str) -> None:
        if path in self._directories:
            return
        self.make_directory(os.path.dirname(path))
        self.meet_faults("make_directory", path)
        self._directories.add(path)
        self.sync_directory(os.path.dirname(path))

    def remove(self, path: str) -> None:
        self.meet_faults("remove", path)
        self._files.pop(path, None)

    def remove_tree(self, path: str) -> None:
        for name in self.list(path):
            child = os.path.join(path, name)
            if child in self._directories:
                self.remove_tree(child)
            else:
                self.remove(child)
        self._directories.discard(path)

    def read_file(self, path: str) -> bytes | None:
        self.meet_faults("read", path)
        inode = self._files.get(path)
        return None if inode is None else bytes(inode.data)

    def read_into(self, path: str, buffer: bytearray) -> int | None:
        data = self.read_file(path)
        if data is None:
            return None
        buffer.extend(bytes(max(0, len(data) - len(buffer))))
        buffer[: len(data)] = data
        return len(data)

    def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
        self._need_directory(path)
        self.meet_faults("replace", path)
        self.take_room(sum(map(len, data)), path)
        inode = _Inode(b"".join(data))
        if sync:
            inode.sync()
        self._files[path] = inode
        if sync:
            self.sync_directory(os.path.dirname(path))

    def rename(self, path: str, target: str) -> None:
        """Rename a file or directory; for a directory and its content, this is durable at once."""
        self._need_directory(target)
        self.meet_faults("rename", path)
        if path in self._directories:
            self._rename_directory(path, target)
            return
        if path not in self._files:
            raise StorageError(f"{path}: {os.strerror(errno.ENOENT)}")
        inode = self._files[target] = self._files.pop(path)
        self._renamed.append((path, inode))

    def _rename_directory(self, path: str, target: str) -> None:
        def moved(name: str) -> str:
            return target + name[len(path) :] if f"{name}/".startswith(f"{path}/") else name

        self._files = {moved(name): inode for name, inode in self._files.items()}
        self._durable_files = {moved(name): inode for name, inode in self._durable_files.items()}
        self._directories = {moved(name) for name in self._directories}
        self._durable_directories = {moved(name) for name in self._durable_directories}
        self._renamed = [(moved(name), inode) for name, inode in self._renamed]

    def sync_directory(self, path: str) -> None:
        self.meet_faults("sync_directory", path)
        for child in list(self._children(path, self._durable_files)):
            del self._durable_files[child]
        for child in self._children(path, self._files):
            self._durable_files[child] = self._files[child]
        self._durable_directories -= set(self._children(path, self._durable_directories))
        self._durable_directories |= set(self._children(path, self._directories))

    def sync_all(self, path: str) -> bool:
        self.sync_count += 1
        below = [name for name in self._files if name.startswith(f"{path}/")]
        for name in below:
            self.meet_faults("sync", name)
        for name in below:
            self._files[name].sync()
            self._durable_files[name] = self._files[name]
        self._durable_directories |= self._directories
        return True

    def lock(self, directory: str) -> FaultyLock:
        if directory not in self._directories:
            raise StorageError(f"{directory}: {os.strerror(errno.ENOENT)}")
        if directory in self._locked:
            raise LockedError(f"cannot flock directory {directory} - in use")
        self._locked.add(directory)
        return FaultyLock(self, directory)

    def unlock(self, directory: str) -> None:
        self._locked.discard(directory)

    # --- the end of the process, or of the power -----------------------------------------------

    def crash(self, keep: Literal["written"] | Chance) -> None:
        """End the process that uses the disk: no handle works any more, no lock is held.

        ``"written"`` is a kill -9: the operating system keeps all. With a ``Chance`` it is a power
        cut, and the chance decides what is left of the bytes that were not synced. Faults and
        fullness are over afterwards.
        """
        self.crashes += 1
        self._locked.clear()
        self.heal()
        if keep != "written":
            self._cut_power(keep)

    def _cut_power(self, chance: Chance) -> None:
        directories = self._survivors(self._durable_directories, self._directories, chance)
        names = self._survivors(set(self._durable_files), set(self._files), chance)
        replaced: dict[str, _Inode] = {}
        for path in sorted(names):
            choices = [i for i in (self._files.get(path), self._durable_files.get(path)) if i]
            replaced[path] = choices[chance.below(len(choices))]
        self._keep_renamed(replaced)
        self._directories = {path for path in directories if _rooted(path, directories)}
        self._files = {
            path: _Inode(inode.after_power_cut(chance))
            for path, inode in replaced.items()
            if os.path.dirname(path) in self._directories
        }
        for inode in self._files.values():
            inode.sync()
        self._durable_files = dict(self._files)
        self._durable_directories = set(self._directories)

    def _keep_renamed(self, left: dict[str, _Inode]) -> None:
        """A renamed file has its old name or its new one, whatever reached the disk."""
        for path, inode in self._renamed:
            if self._durable_files.get(path) is inode and inode not in left.values():
                left[path] = inode
        self._renamed.clear()

    @staticmethod
    def _survivors(durable: set[str], live: set[str], chance: Chance) -> set[str]:
        """The paths left after a power cut: those in both sets, and by chance those in only one."""
        unsure = sorted(durable ^ live)
        return (durable & live) | {path for path in unsure if chance.below(2)}

    # --- faults on command ---------------------------------------------------------------------

    def fail(
        self,
        operation: Operation,
        nth: int = 1,
        *,
        times: int = 1,
        within: str = "",
        code: int = errno.EIO,
    ) -> None:
        """The ``nth`` operation of this kind from now on fails, and the ``times - 1`` after it.

        ``within`` restricts it to paths that contain this text; ``times=-1`` means for good.
        """
        self._faults.append(Fault(operation, nth, times, within, code))

    def fill(self, room: int = 0) -> None:
        """The disk is full after that many bytes more."""
        self._room = room

    def heal(self) -> None:
        """Make room again, and let no fault come."""
        self._room = None
        self._faults.clear()

    def meet_faults(self, operation: Operation, path: str) -> None:
        """Raise the error that is due."""
        for fault in self._faults:
            if fault.strike(operation, path):
                raise kind_of(fault.code)(f"{path}: {os.strerror(fault.code)}")

    def take_room(self, nbytes: int, path: str) -> None:
        """Take up room for these bytes. Raises DiskFullError if they do not fit."""
        if self._room is None:
            return
        if nbytes > self._room:
            raise DiskFullError(f"{path}: {os.strerror(errno.ENOSPC)}")
        self._room -= nbytes

    # --- looking and spoiling ------------------------------------------------------------------

    def paths(self, suffix: str = "") -> Sequence[str]:
        """All files whose path ends so, sorted."""
        return sorted(path for path in self._files if path.endswith(suffix))

    def content(self, path: str) -> bytes:
        return bytes(self._files[path].data)

    def overwrite(self, path: str, data: bytes, position: int = 0) -> None:
        """Change bytes in place, as a failing disk or a stray write does."""
        inode = self._files[path]
        inode.data[position : position + len(data)] = data
        inode.durable[position : position + len(data)] = data
        inode.written = max(inode.written, position + len(data))

    def flip(self, path: str, bit: int) -> None:
        """Flip one bit of a file, counted from its start."""
        byte = self._files[path].data[bit // 8]
        self.overwrite(path, bytes([byte ^ 1 << bit % 8]), bit // 8)

    def cut(self, path: str, size: int) -> None:
        """Cut a file short, durably."""
        inode = self._files[path]
        del inode.data[size:], inode.durable[size:]
        inode.written, inode.clean = min(inode.written, size), min(inode.clean, size)

    def synced(self, path: str) -> int:
        """The number of bytes of a file that a power cut cannot take."""
        inode = self._durable_files.get(path)
        return 0 if inode is not self._files[path] else min(inode.clean, inode.written)

    def _need_directory(self, path: str) -> None:
        if os.path.dirname(path) not in self._directories:
            raise StorageError(f"{path}: {os.strerror(errno.ENOENT)}")

    @staticmethod
    def _children(directory: str, paths: Iterable[str]) -> Iterator[str]:
        return (path for path in [*paths] if os.path.dirname(path) == directory != path)


def _rooted(path: str, directories: set[str]) -> bool:
    """True if all directories above this one are there."""
    while path != "/":
        path = os.path.dirname(path)
        if path not in directories:
            return False
    return True
