"""Ids that deleted queues have given out, in ``ids.json``: no later queue gets one of them.

The ids of a new queue begin with the time of its creation. If the clock was set back, or a topic is
deleted and created again within a microsecond, that alone would repeat ids, and readers would take
the new log for the old one. So the end of the ids of a deleted queue is written down before its
files go.
"""

from __future__ import annotations

import logging
import os
from typing import Annotated, Final

import msgspec

from penstock.core.errors import StorageError
from penstock.core.ids import COUNTER_MAX, counter, id_base
from penstock.core.malformed import MALFORMED
from penstock.storage.files.disk import Disk
from penstock.storage.files.versions import check_version

logger = logging.getLogger(__name__)

IDS_FILE: Final = "ids.json"
_FORMAT: Final = 1


class _Content(msgspec.Struct):
    """The content of the file: new queues begin with this counter or a later one."""

    least: Annotated[int, msgspec.Meta(ge=0, le=COUNTER_MAX)] = 0
    version: int = _FORMAT


class TakenIds:
    """The file in one data path."""

    def __init__(self, disk: Disk, data_path: str) -> None:
        """Load the file. Raises StorageError if unreadable or of a later version; a damaged one
        counts as missing.
        """
        self._disk = disk
        self._path = os.path.join(data_path, IDS_FILE)
        self._content = _Content()
        data = disk.read_file(self._path)
        if data is not None:
            try:
                self._content = msgspec.json.decode(data, type=_Content)
                check_version(self._path, self._content.version, _FORMAT)
            except MALFORMED as error:
                logger.error("%s: %s; ids of new topics begin with the time", self._path, error)

    def new_base(self, node_id: int, wall_ns: int) -> int:
        """The id base for a queue that is created now."""
        return id_base(node_id, wall_ns, self._content.least)

    def take(self, next_id: int, *, durably: bool) -> None:
        """Take the ids of a queue that is about to be deleted, all those below ``next_id``.

        If this cannot be written, as on a full disk, where deleting helps, it holds until the end
        of the process.
        """
        least = min(counter(next_id) + 1, COUNTER_MAX)  # an empty queue has a base, too
        self._content.least = max(self._content.least, least)
        if not durably:
            return
        try:
            self._disk.replace_file(self._path, msgspec.json.encode(self._content))
        except StorageError as error:
            logger.warning("cannot write down the ids of a deleted topic - %s", error)
