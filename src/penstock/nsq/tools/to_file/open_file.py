"""An open file that messages are written to: plain, or gzip in members that end at each sync.

A gzip file is a series of members, each readable by itself. As one ends at each sync, all that was
synced can be read whatever happens to the rest (``zcat`` reports the torn end and prints what is
before it).
"""

from __future__ import annotations

from typing import Final

from penstock.nsq.tools.to_file import file_system

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
