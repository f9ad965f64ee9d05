"""The epochs of a data path's logs, in ``epochs.json``: where they went on with other messages.

A data path that is restored from a backup, and a copy that becomes primary, give out offsets that
readers may have seen other messages at. What they had before stays; so each topic's log is marked
at its end, and tells the mark with its id (``core.ids``). The file is part of a backup, and of
what a follower copies. One that was never restored nor promoted has none.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Final

import msgspec

from penstock.core.chance import SystemChance
from penstock.core.ids import Epoch, format_log_id
from penstock.core.malformed import MALFORMED
from penstock.storage.batch import OFFSET_MAX
from penstock.storage.files.disk import Disk
from penstock.storage.files.versions import check_version

logger = logging.getLogger(__name__)

EPOCHS_FILE: Final = "epochs.json"
EPOCHS_MAX: Final = 32
"""The most epochs that are kept; older ones are told no more."""
_FORMAT: Final = 1

Ends = Mapping[str, tuple[int, int]]
"""By topic: the id base of its log, and the offset that its next message gets."""


_Offset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]


class _Begun(msgspec.Struct):
    """An epoch of all logs that there were; ``ends`` is null until the node is started."""

    mark: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,16}$")]
    restored: bool
    ends: dict[str, tuple[_Offset, _Offset]] | None = None


class _Content(msgspec.Struct):
    epochs: list[_Begun] = []
    version: int = _FORMAT


class LogEpochs:
    """The file in one data path."""

    def __init__(self, disk: Disk, data_path: str) -> None:
        """Load the file. Raises StorageError if unreadable or of a later version; a damaged one
        counts as missing.
        """
        self._disk = disk
        self._path = os.path.join(data_path, EPOCHS_FILE)
        self._content = _Content()
        self.load()

    def load(self) -> None:
        """Read the file again, which was replaced. Raises as the initialiser."""
        self._content = _Content()
        data = self._disk.read_file(self._path)
        if data is None:
            return
        try:
            self._content = msgspec.json.decode(data, type=_Content)
        except MALFORMED as error:
            logger.error(
                "%s: %s; readers of the log are not told that it was restored", self._path, error
            )
        check_version(self._path, self._content.version, _FORMAT)

    def restored(self) -> None:
        """The data path was put back: an epoch begins where its logs end when they are opened.

        Raises StorageError.
        """
        # Its ends are known only when the logs are opened, so ``opened`` writes them.
        self._write([*self._content.epochs, _Begun(_mark(), restored=True)])

    def promoted(self, ends: Ends) -> Callable[[], None]:
        """A copy becomes primary: an epoch begins at these ends. Returns what takes that back.

        What it was restored from counts no more, as it has copied the primary since. Both raise
        StorageError.
        """
        before = self._content.epochs
        known = [each for each in before if each.ends is not None]
        self._write([*known, _Begun(_mark(), restored=False, ends=dict(ends))])
        return partial(self._write, before)

    def opened(self, ends: Ends) -> None:
        """The logs are open and end here. Raises StorageError."""
        epochs = self._content.epochs
        if any(each.ends is None for each in epochs):
            begun = partial(_Begun, ends=dict(ends))
            self._write(
                [begun(each.mark, each.restored) if each.ends is None else each for each in epochs]
            )

    def log_id(self, topic: str, id_base: int, place: Callable[[int], int] | None = None) -> str:
        """The id of a topic's log. ``place`` gives an epoch's first offset as the reader counts."""
        epochs = []
        for each in self._content.epochs:
            log, first = (each.ends or {}).get(topic, (-1, 0))
            # A topic that was deleted and made again has another log: its offsets began again.
            if log == id_base:
                epochs.append(Epoch(place(first) if place else first, each.mark, each.restored))
        return format_log_id(id_base, epochs)

    def _write(self, epochs: list[_Begun]) -> None:
        content = _Content(epochs[-EPOCHS_MAX:])
        self._disk.replace_file(self._path, msgspec.json.encode(content))
        self._content = content


def _mark() -> str:
    return f"{SystemChance().below(1 << 32):08x}"
