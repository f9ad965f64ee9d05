"""One topic, two dialects: messages of the other one in a reader's own dialect.

A batch holds the frames of the dialect that wrote it. In between there are only bodies: each
dialect has a reader that gives those of its batches, and NSQ a writer that makes a batch of them.
The code of a dialect is loaded when the first batch asks for it, so who never meets the other
dialect does not pay for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from typing import Final, TypeAlias

from penstock.storage.batch import DIALECT_AT, HEADER_BYTES, Batch, Dialect
from penstock.storage.queues.queue_rebuild import Stated

Reader: TypeAlias = Callable[[Batch, int, int], list[bytes]]
"""The bodies of log offsets ``[first, next)`` of a batch."""
Writer: TypeAlias = Callable[[Batch, list[bytes]], Batch]
"""A batch with these bodies and the place, ids and time of the given one."""

VIEWS_BYTES_MAX: Final = 32 * 1024 * 1024
_NSQ: Final = int(Dialect.NSQ)

_reader_loaders: dict[int, Callable[[], Reader]] = {}
_readers: dict[int, Reader] = {}
_stated_loaders: dict[int, Callable[[], Stated]] = {}
_nsq_writer_loaders: list[Callable[[], Writer]] = []


def register_reader(dialect: Dialect, load: Callable[[], Reader]) -> None:
    """Hand in the function that loads a dialect's reader once it is needed."""
    _reader_loaders[dialect] = load
    _readers.pop(dialect, None)


def register_stated(dialect: Dialect, load: Callable[[], Stated]) -> None:
    """Load the reader of the queue offsets that messages of a dialect state."""
    _stated_loaders[dialect] = load


def register_nsq_writer(load: Callable[[], Writer]) -> None:
    """Hand in the function that loads the writer of NSQ's batches once it is needed."""
    _nsq_writer_loaders[:] = [load]


def bodies(batch: Batch, first: int, next_: int) -> list[bytes]:
    """The bodies of log offsets ``[first, next_)`` of a batch; its frames as they are when nobody
    knows its dialect.
    """
    reader = _readers.get(batch.dialect)
    if reader is None:
        load = _reader_loaders.get(batch.dialect)
        reader = _readers[batch.dialect] = load() if load is not None else frames
    return reader(batch, first, next_)


def queue_offset(batch: Batch) -> int | None:
    """The queue offset of a batch's first message as that states it; None where it does not."""
    load = _stated_loaders.get(batch.dialect)
    return load()(batch) if load is not None else None


def frames(batch: Batch, first: int, next_: int) -> list[bytes]:
    """The frames of log offsets ``[first, next_)`` of a batch, one by one."""
    start = first - batch.first_offset
    borders = batch.positions()[start : start + next_ - first + 1].tolist()
    return [bytes(batch.frames[low:high]) for low, high in pairwise(borders)]


def nsq_view(batch: Batch) -> Batch:
    """The batch itself when it is NSQ's, else one of NSQ frames in its place."""
    return batch if batch.dialect == _NSQ else _nsq_views.of(batch)


def nsq_raw(raw: memoryview) -> memoryview:
    """The bytes of a batch in NSQ's dialect, made from a batch as it is stored."""
    if raw[DIALECT_AT] == _NSQ:
        return raw
    return _nsq_views.of(Batch.parse(raw, verify=False)).raw


class Views:
    """A cache of translated batches that evicts the least recently used.

    They are known by the headers of what they translate: that has a checksum of all the rest, so
    it does not matter whether a batch comes from memory or was read again.
    """

    def __init__(self, translate: Callable[[Batch], Batch], nbytes_max: int = VIEWS_BYTES_MAX):
        self.nbytes = 0
        self._translate = translate
        self._nbytes_max = nbytes_max
        self._views: OrderedDict[bytes, Batch] = OrderedDict()

    def __len__(self) -> int:
        return len(self._views)

    def of(self, batch: Batch) -> Batch:
        """The translation of a batch, kept for those who ask next."""
        key = bytes(batch.raw[:HEADER_BYTES])
        view = self._views.get(key)
        if view is not None:
            self._views.move_to_end(key)
            return view
        view = self._views[key] = self._translate(batch)
        self.nbytes += len(view.raw)
        # The newest stays, however large: the topic's other channels are about to ask for it.
        while self.nbytes > self._nbytes_max and len(self._views) > 1:
            _, forgotten = self._views.popitem(last=False)
            self.nbytes -= len(forgotten.raw)
        return view


def _as_nsq(batch: Batch) -> Batch:
    (load,) = _nsq_writer_loaders
    return load()(batch, bodies(batch, batch.first_offset, batch.next_offset))


_nsq_views: Final = Views(_as_nsq)
