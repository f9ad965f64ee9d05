r"""The properties of many messages at once: ``name \x01 value \x02`` repeated, as Arrow arrays.

As Java reads them: entries without a name or a value are dropped, of equal names the last counts,
and the last ``\x02`` may be missing.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.spark.rocketmq.arrays import texts
from penstock.spark.rocketmq.stored import Longs, Spans

MAP: Final = pa.map_(pa.string(), pa.string())
_NAME_END: Final = 1
_VALUE_END: Final = 2


class Properties:
    """The properties of messages, which lie in ``spans``, in order."""

    def __init__(self, data: bytes, spans: Spans) -> None:
        self._count = len(spans.starts)
        self._messages, names, values = _entries(np.frombuffer(data, np.uint8), spans)
        self._names = texts(data, names).dictionary_encode()
        self._codes: Longs = self._names.indices.to_numpy().astype(np.int64)
        self._values = texts(data, values)

    def of(self, name: str) -> pa.Array:
        """The values of one name; null where a message does not have it."""
        found = np.full(self._count, -1, np.int64)
        code = self._names.dictionary.index(pa.scalar(name, pa.string())).as_py()
        entries = np.flatnonzero(self._codes == code)
        found[self._messages[entries]] = entries  # of equal names the last one stays
        return self._values.take(pa.array(found, mask=found < 0))

    def maps(self) -> pa.Array:
        """All of them, a map a message."""
        kept = self._last_of_each_name
        counts = np.bincount(self._messages[kept], minlength=self._count)
        edges = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        taken = pa.array(kept)
        names = self._names.dictionary.take(pa.array(self._codes[kept]))
        return pa.MapArray.from_arrays(pa.array(edges), names, self._values.take(taken))

    @cached_property
    def _last_of_each_name(self) -> Longs:
        """The entries, without those whose name comes again in the same message."""
        key = self._messages * max(1, len(self._names.dictionary)) + self._codes
        order = np.argsort(key, kind="stable")
        ordered = key[order]
        is_last = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
        kept: Longs = np.sort(order[is_last])
        return kept


def _entries(raw: npt.NDArray[np.uint8], spans: Spans) -> tuple[Longs, Spans, Spans]:
    """The message, the name and the value of each entry that has both."""
    starts, ends = spans
    if not len(starts):
        return starts, spans, spans
    marks = np.flatnonzero(raw == _VALUE_END)
    of = np.searchsorted(starts, marks, side="right") - 1
    marks = marks[(of >= 0) & (marks < ends[of])]
    # Where the last value has no end, the end of the properties is it.
    open_ends = ends[(ends > starts) & (raw[ends - 1] != _VALUE_END)]
    entry_ends = np.sort(np.concatenate((marks, open_ends)), kind="stable")
    of = np.searchsorted(starts, entry_ends, side="right") - 1
    entry_starts = np.concatenate(([0], entry_ends[:-1] + 1)).astype(np.int64)
    entry_starts = np.maximum(entry_starts, starts[of])
    splits = np.flatnonzero(raw == _NAME_END)
    splits = np.append(splits, len(raw))
    split = splits[np.searchsorted(splits, entry_starts)]
    whole = (split > entry_starts) & (split + 1 < entry_ends)
    return (
        of[whole],
        Spans(entry_starts[whole], split[whole]),
        Spans(split[whole] + 1, entry_ends[whole]),
    )
