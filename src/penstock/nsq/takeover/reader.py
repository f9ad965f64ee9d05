"""Reading one queue of Go's nsqd from its files, chunk by chunk, saying what cannot be read."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Final

from penstock.core.counted import counted
from penstock.core.errors import ConfigError
from penstock.nsq.takeover.data_file import LENGTH_BYTES, MESSAGE_MIN, Records, cut, looks_whole
from penstock.nsq.takeover.diskqueue import Piece, QueueFiles, missing, parse_meta, pieces
from penstock.storage.files.disk import Disk, LogFile

logger = logging.getLogger("penstock.nsqd")

CHUNK_BYTES_MAX: Final = 4 * 1024 * 1024
CHUNK_BYTES_MIN: Final = 64 * 1024


class QueueReader:
    """The unread messages of one queue. After ``chunks`` has ended, ``damaged`` names the files
    of which a part could not be read.
    """

    def __init__(self, disk: Disk, data_path: str, files: QueueFiles, max_msg_size: int) -> None:
        """Read the meta file. Raises StorageError."""
        self.files = files
        self.sizes: dict[str, int] = {}
        self.damaged: list[str] = []
        self.count = 0
        self._disk = disk
        self._data_path = data_path
        self._message_max = max_msg_size + MESSAGE_MIN
        data = disk.read_file(self._path(files.meta_name)) if files.has_meta else None
        self.meta = None if data is None else parse_meta(data)
        if data is not None:
            self.sizes[files.meta_name] = len(data)
            if self.meta is None:
                self._warn(f"{files.meta_name} makes no sense; all of its data files are read")
        for number in files.numbers:
            file = disk.open(self._path(files.data_name(number)))
            self.sizes[files.data_name(number)] = file.size
            file.close()

    @property
    def nbytes(self) -> int:
        """Bytes to be read."""
        return sum(
            max(0, self.sizes[self.files.data_name(piece.number)] - piece.position)
            for piece in pieces(self.files, self.meta)
        )

    def chunks(self, nbytes: int = CHUNK_BYTES_MAX) -> Iterator[Records]:
        """The records in the order of the files, about ``nbytes`` at a time.

        Raises StorageError when a file cannot be read, ConfigError when a message is larger than
        nsqd is now told to take.
        """
        for first, last in missing(self.files, self.meta):
            names = [self.files.data_name(number) for number in sorted({first, last})]
            self._warn(f"{' to '.join(names)} should be there and cannot be found")
        for piece in pieces(self.files, self.meta):
            file = self._disk.open(self._path(self.files.data_name(piece.number)))
            try:
                for records in self._file_chunks(file, piece, nbytes):
                    self.count += len(records)
                    yield records
            finally:
                file.close()
        if self.meta is not None and self.count < self.meta.depth:
            self._warn(
                f"holds {counted(self.count, 'message')}, {self.meta.depth} by its meta file"
            )

    def _file_chunks(self, file: LogFile, piece: Piece, nbytes: int) -> Iterator[Records]:
        position = piece.position
        wanted = nbytes
        while position < file.size:
            buffer = file.read(position, wanted)
            found = cut(buffer, self._message_max)
            if len(found.records):
                yield found.records
            position += found.end
            wanted = nbytes
            if found.bad_length is not None:
                self._judge(file, position, found.bad_length, buffer[found.end :])
                return
            if position < file.size and not len(found.records):
                if position + len(buffer) >= file.size:
                    self._damage(file, position, "ends in the middle of a record")
                    return
                # A record larger than a chunk: ``cut`` found its length possible, so read it whole.
                wanted = LENGTH_BYTES + int.from_bytes(buffer[:LENGTH_BYTES], "big")

    def _judge(self, file: LogFile, position: int, length: int, rest: bytes) -> None:
        """A length that cannot be: damage, unless nsqd takes smaller messages than it used to."""
        end = position + LENGTH_BYTES + length
        # 64 more bytes, as the id may be behind what was read.
        if end <= file.size and looks_whole(rest + file.read(position + len(rest), 64), 0, length):
            size = length - MESSAGE_MIN
            raise ConfigError(
                f"{file.path} holds a message of {size} bytes, more than --max-msg-size "
                f"{self._message_max - MESSAGE_MIN}: start with --max-msg-size={size} or more"
            )
        self._damage(file, position, f"has a record with the impossible length {length}")

    def _damage(self, file: LogFile, position: int, what: str) -> None:
        name = os.path.basename(file.path)
        self.damaged.append(name)
        self._warn(
            f"{name} {what} at byte {position}; what is before it is imported, the "
            f"{file.size - position} bytes from there on are not"
        )

    def _warn(self, text: str) -> None:
        logger.warning("IMPORT: queue %s: %s", self.files.name, text)

    def _path(self, name: str) -> str:
        return os.path.join(self._data_path, name)
