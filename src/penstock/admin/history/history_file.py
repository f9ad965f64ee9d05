"""The file that keeps the day's figures over a restart of nsqadmin: ``--history-path``.

One record for each point, appended: the figures of all rows, and the rows' keys where they are
others than before. A record that is torn or damaged ends what is read. At the start the file is
written again without what is older than a day. What a full disk left of a record is overwritten by
the next one.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from penstock.admin.history.ring import Table
from penstock.admin.history.row_numbers import Key
from penstock.core.malformed import MALFORMED

logger = logging.getLogger("penstock.nsqadmin")

_MAGIC: Final = b"PSH1"
_HEAD: Final = struct.Struct("<4sII")
_LEVEL: Final = 1
_RECORD_MAX: Final = 256 * 1024 * 1024
FILE_MAX: Final = 1024 * 1024 * 1024
"""Bytes at which no more is appended until the next start writes the file again."""


class _Record(msgspec.Struct, array_like=True):
    time: float
    quantiles: list[float]
    keys: list[tuple[str, str, str]] | None
    """The rows with figures; None where they are those of the record before."""
    figures: int
    values: bytes


class Point(NamedTuple):
    """Figures of rows at a time, in unix seconds."""

    time: float
    quantiles: list[float]
    keys: list[Key]
    table: Table


class HistoryFile:
    """The file at a path, which exists."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._keys: list[Key] | None = None
        self._end = 0
        """The end of the last whole record, in bytes: where the next one begins."""
        self._is_failing = False

    def load(self, since: float) -> list[Point]:
        """The points from a time on; the file has no others afterwards."""
        points = []
        try:
            points = [point for point in self._points() if point.time >= since]
            if self._end < self._path.stat().st_size:
                logger.warning(
                    "history: %s is damaged after byte %d: what is before it is kept",
                    self._path,
                    self._end,
                )
            self._write_again(points)
        except OSError as error:
            self._told(error)
        return points

    def _write_again(self, points: list[Point]) -> None:
        aside = self._path.with_name(f"{self._path.name}.new")
        try:
            with aside.open("wb") as file:
                for point in points:
                    file.write(self._encoded(point))
                end = file.tell()
            aside.replace(self._path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        self._end = end

    def append(self, point: Point) -> None:
        """Keep a point; that it cannot be written is logged once."""
        if self._end > FILE_MAX:
            return
        try:
            with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
                if file.seek(0, os.SEEK_END) < self._end:  # somebody deleted it, or cut it short
                    self._end, self._keys = 0, None
                file.seek(self._end)
                file.write(self._encoded(point))
                file.truncate()
                end = file.tell()
        except OSError as error:
            self._told(error)
        else:
            self._end, self._is_failing = end, False

    def _told(self, error: OSError) -> None:
        self._keys = None  # whatever is written next says whose rows it has
        if not self._is_failing:
            logger.warning(
                "history: %s cannot be kept - %s", self._path, os.strerror(error.errno or 0)
            )
        self._is_failing = True

    def _encoded(self, point: Point) -> bytes:
        keys = None if point.keys == self._keys else [(*key,) for key in point.keys]
        self._keys = point.keys
        values = np.ascontiguousarray(point.table, "<f4")
        record = _Record(point.time, point.quantiles, keys, len(values), values.tobytes())
        data = zlib.compress(msgspec.msgpack.encode(record), _LEVEL)
        return _HEAD.pack(_MAGIC, len(data), zlib.crc32(data)) + data

    def _points(self) -> Iterator[Point]:
        keys: list[Key] = []
        with self._path.open("rb") as file:
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                magic, size, checksum = _HEAD.unpack(head)
                if magic != _MAGIC or size > _RECORD_MAX:
                    return
                data = file.read(size)
                if len(data) != size or zlib.crc32(data) != checksum:
                    return
                try:
                    record = msgspec.msgpack.decode(zlib.decompress(data), type=_Record)
                    if record.keys is not None:
                        keys = [Key(*key) for key in record.keys]
                    values = np.frombuffer(record.values, "<f4").reshape(record.figures, len(keys))
                except (*MALFORMED, zlib.error, ValueError):
                    return
                self._end = file.tell()
                yield Point(record.time, record.quantiles, keys, values.astype(np.float32))
