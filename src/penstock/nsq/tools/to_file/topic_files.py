"""The files of one topic, one after the other. Blocking; nothing of the network is known here.

Messages are counted: ``written`` are in a file, ``durable`` of them on stable storage. Only those
may be finished.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.core.units import SECOND
from penstock.nsq.tools.to_file import file_system
from penstock.nsq.tools.to_file.filename import Filenames, with_revision
from penstock.nsq.tools.to_file.rotation import Rotation

try:
    from zlib_ng import zlib_ng as zlib
except ImportError:  # not built for this machine
    import zlib  # type: ignore[no-redef]

_GZIP: Final = 31
"""The window, 15 bits, plus 16 for gzip's head and tail."""
_HELD_MAX: Final = 1 << 20
"""Compressed bytes to gather before they are written: mostly a whole member, in one piece."""


class Output:
    """A plain file. ``size`` is in bytes before compression, what was there before counted in.

    All methods raise DiskError.
    """

    def __init__(self, fd: int, path: str) -> None:
        self.path = path
        self.size = file_system.size_of(fd, path)
        self._fd = fd

    def end_torn_line(self) -> None:
        """End a line of which a crash left half, so that the next one begins by itself."""
        if not file_system.ends_in_line(self.path):
            self.write(b"\n")

    def write(self, data: bytes) -> None:
        """Add bytes at the end."""
        file_system.write(self._fd, self.path, data)
        self.size += len(data)

    def sync(self) -> None:
        """Make what was written so far readable, and put it on stable storage, before returning."""
        file_system.sync(self._fd, self.path)

    def finish(self) -> None:
        """The file gets no more messages; ``sync`` and ``close`` are still to come."""

    def close(self) -> None:
        """Give the file back to the system."""
        file_system.close(self._fd, self.path)


class GzipOutput(Output):
    """A gzip file; ``level`` is 1 to 9."""

    def __init__(self, fd: int, path: str, level: int) -> None:
        super().__init__(fd, path)
        self._level = level
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._begin_member()

    def write(self, data: bytes) -> None:
        self._hold(self._member.compress(data))
        self.size += len(data)
        if self._held_bytes > _HELD_MAX:
            self._write_held()

    def sync(self) -> None:
        # A member ends with each sync: a crash leaves what is finished readable (NSQ spec 6.4).
        if self._open:
            self._end_member()
            self._begin_member()
        super().sync()

    def finish(self) -> None:
        if self._open:
            self._end_member()

    def _begin_member(self) -> None:
        self._member = zlib.compressobj(self._level, zlib.DEFLATED, _GZIP)
        self._open = True

    def _end_member(self) -> None:
        self._hold(self._member.flush())
        self._open = False
        self._write_held()

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)

    def _write_held(self) -> None:
        data = b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        file_system.write(self._fd, self.path, data)


Say = Callable[[int, str], None]
"""A function that takes a level of ``logging`` and a line."""


class WriteFailed(PenstockError):
    """Files cannot be written any more; the text says what was tried, where, and the reason."""


class Settings(Protocol):
    """The options that the writer needs."""

    output_dir: str
    work_dir: str
    gzip: bool
    gzip_level: int
    skip_empty_files: bool
    max_in_flight: int

    @property
    def rotation(self) -> Rotation:
        """The limits of a file."""
        ...

    @property
    def exclusive(self) -> bool:
        """True if a file that exists is never written to."""
        ...


class Writer:
    """A writer of one message a line, which turns to the next file when it is time.

    Work is done in ``work_dir``; where that is not ``output_dir``, finished files move there.
    Every method may raise WriteFailed; nothing may be called after it.
    """

    def __init__(self, settings: Settings, filenames: Filenames, clock: Clock, say: Say) -> None:
        self.written = 0
        self.durable = 0
        self._settings = settings
        self._rotation = settings.rotation
        self._filenames = filenames
        self._clock = clock
        self._say = say
        self._moves = settings.work_dir != settings.output_dir
        self._output: Output | None = None
        self._name = ""
        self._revision = 0
        self._opened_ns = 0

    def take(self, bodies: Sequence[bytes], *, sync: bool = False) -> None:
        """Write messages. All there is gets synced after the first of each file, when a batch is
        full, and with ``sync`` at the end.
        """
        first = 0
        while first < len(bodies):
            output, is_new = self._current_output()
            count = 1 if is_new else self._rotation.room(output.size, bodies, first)
            lines = list(bodies[first : first + count])
            # One call for all: each line ends with a line feed, the last one too.
            lines.append(b"")
            with _trying("writing message to disk"):
                output.write(b"\n".join(lines))
            first += count
            self.written += count
            # As in Go the message that opens a file is synced at once (NSQ spec 6.4, Sync).
            # Also when ``max_in_flight`` wait: nsqd gives no more before some of them are finished.
            if is_new or self.written - self.durable >= self._settings.max_in_flight:
                self.sync()
        if sync:
            self.sync()

    def sync(self) -> None:
        """Bring to stable storage what is not there yet."""
        count = self.written - self.durable
        if not count:
            return
        self._say(logging.INFO, f"syncing {count} records to disk")
        if self._output is not None:  # those of a file that is closed are durable
            with _trying("failed syncing messages"):
                self._output.sync()
        # Only now may their consumer finish them: NSQ has them until then.
        self.durable = self.written

    def tick(self) -> None:
        """The sync interval has passed: look whether it is time for another file, and sync."""
        output = self._output
        due = output is None or self._is_done(output)
        # As in Go a tick that finds no file makes an empty one (NSQ spec 6.4).
        if due and not self._settings.skip_empty_files:
            self._next_output()
        self.sync()
        # The next message opens the next file: until then there is none to be empty.
        if due and self._settings.skip_empty_files:
            self.close()

    def close_file(self) -> None:
        """Sync and end the file; the next message opens another."""
        self.sync()
        self.close()

    def close(self) -> None:
        """End the file, if one is open; messages not synced yet are durable as well then."""
        output, self._output = self._output, None
        if output is None:
            return
        with _trying("failed to close GZIP writer"):
            output.finish()
        with _trying("failed to fsync output file"):
            # To close brings nothing to stable storage, and all in the file counts as durable.
            output.sync()
        with _trying("failed to close output file"):
            output.close()
        if self._moves:
            self._move(output.path)

    def _current_output(self) -> tuple[Output, bool]:
        """The file for the next message, and whether it begins with it."""
        output = self._output
        if output is None or self._is_done(output):
            return self._next_output(), True
        return output, False

    def _is_done(self, output: Output) -> bool:
        """True if it is time for another file."""
        age = self._clock.monotonic_ns() - self._opened_ns
        reason = self._rotation.reason(
            self._name, self._current_name(), age, output.path, output.size
        )
        if reason:
            self._say(logging.INFO, f"{reason}, rotating...")
        return reason is not None

    def _current_name(self) -> str:
        return self._filenames.at(self._clock.wall_ns() // SECOND)

    def _next_output(self) -> Output:
        """Leave the file that is open and open the next one whose name is free."""
        self.close()
        name = self._current_name()
        # As in Go a new name begins at 0, the same one goes on (NSQ spec 6.4, REV).
        self._revision = self._revision + 1 if name == self._name else 0
        self._name = name
        self._opened_ns = self._clock.monotonic_ns()
        while (output := self._try_revision(with_revision(name, self._revision))) is None:
            self._revision += 1
        self._output = output
        return output

    def _try_revision(self, name: str) -> Output | None:
        """The file of this name in the work directory; None when the name cannot be used."""
        path = file_system.join(self._settings.work_dir, name)
        if self._moves and self._is_taken(file_system.join(self._settings.output_dir, name)):
            return None
        self._make_directory_of(path)
        try:
            with _trying(f"unable to open {path}"):
                is_new = self._settings.exclusive
                fd = file_system.create(path) if is_new else file_system.open_to_append(path)
        except file_system.ExistsError:
            self._say(logging.WARNING, f"working file already exists: {path}")
            return None
        self._say(logging.INFO, f"opening {path}")
        return self._usable(fd, path)

    def _usable(self, fd: int, path: str) -> Output | None:
        with _trying(f"unable to stat file {path}"):
            if self._settings.gzip:
                return GzipOutput(fd, path, self._settings.gzip_level)
            output = Output(fd, path)
        # A file of an earlier run that has its size already.
        if reason := self._rotation.too_large(path, output.size):
            self._say(logging.INFO, f"{reason}, rotating...")
            output.close()
            return None
        with _trying("writing newline to disk"):
            output.end_torn_line()
        return output

    def _is_taken(self, path: str) -> bool:
        """Look ahead, so that the move at the end does not need another name."""
        self._make_directory_of(path)
        with _trying(f"unable to stat output file {path}"):
            taken = file_system.exists(path)
        if taken:
            self._say(logging.WARNING, f"output file already exists: {path}")
        return taken

    def _make_directory_of(self, path: str) -> None:
        directory = path.rpartition("/")[0]
        if directory:
            with _trying("unable to create dir"):
                file_system.make_directories(directory)

    def _move(self, source: str) -> None:
        """Bring a finished file into the output directory, under the next name that is free."""
        revision = self._revision
        target = self._target(revision)
        self._say(logging.INFO, f"moving finished file {source} to {target}")
        while not self._moved(source, target):
            self._say(logging.WARNING, f"destination file already exists: {target}")
            revision += 1
            target = self._target(revision)
        if revision != self._revision:
            renamed = f"renamed finished file {source} to {target} to avoid overwrite"
            self._say(logging.INFO, renamed)

    def _target(self, revision: int) -> str:
        return file_system.join(self._settings.output_dir, with_revision(self._name, revision))

    def _moved(self, source: str, target: str) -> bool:
        """False when the target's name is taken."""
        with _trying(f"unable to move file from {source} to {target}"):
            try:
                file_system.move(source, target)
            except file_system.ExistsError:
                return False
            except file_system.DiskError as error:
                if not file_system.is_elsewhere(error):
                    raise
                return self._moved_far(source, target)
        return True

    def _moved_far(self, source: str, target: str) -> bool:
        """Move like ``_moved``, onto another file system."""
        if file_system.exists(target):
            return False
        # Go's program needs both directories on one file system (NSQ spec 6.4, work-dir).
        self._say(logging.INFO, f"copying {source} to another file system")
        # Under another name first: whoever watches the directory sees whole files only.
        copy = file_system.copy(source, target)
        try:
            file_system.move(copy, target)
        except file_system.ExistsError:
            file_system.remove(copy)
            return False
        file_system.remove(source)
        return True


@contextmanager
def _trying(what: str) -> Iterator[None]:
    """Name what was tried when the disk fails; a name that exists is for the caller to handle."""
    try:
        yield
    except file_system.ExistsError:
        raise
    except file_system.DiskError as error:
        raise WriteFailed(f"{what}: {error}") from error
