"""One topic's files as they are at one moment, while a node may be writing them.

All that a node writes is right after a crash at any time: the log only grows, and what refers to it
never runs ahead of it. So whatever refers to the log is read first, and the log last. The one thing
that might come between is retention, which deletes segments after it has noted so in the journal:
the segments are held open, so that they stay readable, and if the oldest is another one by then,
all is read again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from penstock.core.errors import StorageError, TooManyFilesError
from penstock.storage.files.disk import Disk, reported
from penstock.storage.identity import IDENTITY_FILE, segments_in
from penstock.storage.queues.queue_chunks import DIRECTORY as QUEUES
from penstock.storage.recovery.scan import scan
from penstock.storage.segment import segment_name

ATTEMPTS: Final = 100
WINDOW_BYTES: Final = 16 * 1024 * 1024
_SMALL: Final = (".journal", ".json", ".index")
"""The files whose content is replaced; others, such as the index of keys, are made of the log."""


class HeldFile:
    """A file held open, to be read while it may grow; only its end may change."""

    def __init__(self, path: str, *, is_newest: bool = False) -> None:
        """Open it; ``is_newest`` is for the segment that a node writes to. Raises StorageError."""
        self.path = path
        self._is_newest = is_newest
        with reported(path):
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._size = os.fstat(self._fd).st_size

    def read(self, position: int, nbytes: int) -> bytes:
        with reported(self.path):
            return os.pread(self._fd, nbytes, position)

    def end(self, known: int) -> int:
        """The end of what is whole, if it is so up to ``known``.

        Of a finished file that is its size. The newest segment may end in zeros that were reserved,
        or in a batch that is being written.
        """
        if not self._is_newest:
            return self._size
        position, nbytes = known, WINDOW_BYTES
        while data := self.read(position, nbytes):
            found = scan(data, more=True)
            if not found.end and len(data) < nbytes:
                break
            position += found.end
            # A batch that is longer than the window is not yet its end.
            nbytes = WINDOW_BYTES if found.end else 2 * nbytes
        return position

    def close(self) -> None:
        os.close(self._fd)


class QueueFiles:
    """The files of a queue at one moment, by name: ``small`` ones read, ``growing`` held open."""

    def __init__(self) -> None:
        self.small: dict[str, bytes] = {}
        self.growing: dict[str, HeldFile] = {}


@contextmanager
def queue_files(disk: Disk, directory: str) -> Iterator[QueueFiles | None]:
    """The files in the directory of a queue; None if it is deleted. Raises StorageError."""
    for _ in range(ATTEMPTS):
        with ExitStack() as held:
            found = _look(disk, directory, held)
            if found is not None:
                yield found
                return
        if not os.path.isdir(directory):
            yield None
            return
    raise StorageError(f"{directory}: segments are deleted faster than they can be opened")


def _look(disk: Disk, directory: str, held: ExitStack) -> QueueFiles | None:
    """Read and open all files; None if any segment was deleted meanwhile, or the topic was and
    another one made, or it got an index of queues. Raises StorageError.
    """
    oldest = segments_in(disk, directory)[:1]
    files = QueueFiles()
    for name in disk.list(directory):
        if name.endswith(_SMALL):
            data = disk.read_file(os.path.join(directory, name))
            if data is not None:
                files.small[name] = data
    queues = disk.list(os.path.join(directory, QUEUES))
    names = [os.path.join(QUEUES, name) for name in queues]
    names += [segment_name(first) for first in segments_in(disk, directory)]
    for name in names:
        try:
            file = HeldFile(os.path.join(directory, name), is_newest=name == names[-1])
        # No sign that the segment was deleted: another attempt would fail in the same way.
        except TooManyFilesError:
            raise
        except StorageError:
            return None
        held.callback(file.close)
        files.growing[name] = file
    identity = disk.read_file(os.path.join(directory, IDENTITY_FILE))
    is_same = identity == files.small.get(IDENTITY_FILE)
    is_same = is_same and disk.list(os.path.join(directory, QUEUES)) == queues
    return files if is_same and segments_in(disk, directory)[:1] == oldest else None
