"""The form of an archive: place, format, columns and folders, fixed when its query starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, tzinfo
from functools import cache
from itertools import pairwise
from typing import Final, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from penstock.spark.errors import OptionError
from penstock.spark.offsets import Place

PARQUET: Final = "parquet"
LINES: Final = "text"
"""A body a line, as Spark's format ``text`` has it."""
OF_TIME: Final = ("date", "hour")
FOLDERS: Final = ("topic", "node", "queue", *OF_TIME)
"""Columns that folders may be named for: a message's place, and the time of its publish."""
_TIME: Final = "timestamp"
_OFFSET: Final = "offset"
# Offsets from UTC are multiples of a quarter of an hour.
_SLOT_S: Final = 900
# As Spark escapes the values of folders' names.
_ESCAPED: Final = frozenset("\"#%'*/:=?\\\x7f{[]^") | frozenset(map(chr, range(1, 32)))


@dataclass(frozen=True, slots=True)
class Target:
    """``root`` is a path or a URI of ``pyarrow.fs``; ``columns`` are those of the files,
    ``folders`` some of FOLDERS, the outermost first; ``zone`` is the time zone of date and hour.

    ``compression`` is pyarrow's word, ``level`` None for its usual one.
    """

    root: str
    format: str
    columns: tuple[str, ...]
    folders: tuple[str, ...]
    compression: str = "snappy"
    level: int | None = None
    zone: str = "UTC"

    @classmethod
    def load(cls, text: str) -> Self:
        """The target that ``dump`` wrote."""
        given = json.loads(text)
        return cls(**given | {key: tuple(given[key]) for key in ("columns", "folders")})

    def dump(self) -> str:
        """JSON, for an option of Spark's."""
        return json.dumps(asdict(self))

    @property
    def ending(self) -> str:
        """The end of files' names."""
        if self.format == PARQUET:
            return ".parquet"
        return ".txt.gz" if self.compression == "gzip" else ".txt"

    @property
    def read(self) -> tuple[str, ...]:
        """The columns to read: those of the files, and what names and folders are made of."""
        times = (_TIME,) if self._has_times else ()
        return tuple(dict.fromkeys((*self.columns, _OFFSET, *times)))

    def runs(self, rows: pa.RecordBatch, place: Place) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows that follow each other and share a folder, with the folder's path below the root.

        Neighbours may have the same one.
        """
        if not self._has_times:
            yield self._folder(place, 0), rows
            return
        slots = rows.column(_TIME).cast(pa.int64()).to_numpy() // (_SLOT_S * 1_000_000)
        edges = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), rows.num_rows]
        for lower, upper in pairwise(edges):
            yield self._folder(place, int(slots[lower])), rows.slice(lower, upper - lower)

    @property
    def _has_times(self) -> bool:
        return bool({*self.folders} & {*OF_TIME})

    def _folder(self, place: Place, slot: int) -> str:
        values: dict[str, object] = place._asdict()
        if self._has_times:
            time = datetime.fromtimestamp(slot * _SLOT_S, zone_of(self.zone))
            values |= {"date": time.date().isoformat(), "hour": time.hour}
        return "/".join(f"{name}={_escaped(str(values[name]))}" for name in self.folders)


@cache
def zone_of(name: str) -> tzinfo:
    """The time zone of a name of Spark's. Raises OptionError for one that has no rules."""
    if name.upper() in ("UTC", "Z", "GMT", "ETC/UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise OptionError(
            f"spark.sql.session.timeZone={name}: folders of date and hour need a zone such as "
            "Europe/Berlin, or UTC"
        ) from None


def _escaped(value: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in value)
