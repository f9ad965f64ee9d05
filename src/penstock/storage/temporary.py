"""Files under a temporary name, which they have until they take the place of another.

A process that is killed meanwhile leaves them behind: they hold nothing that anybody was promised,
and the next one removes them.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from typing import TYPE_CHECKING, Final

from penstock.core.errors import StorageError

if TYPE_CHECKING:
    from penstock.storage.disk import Disk

_NAME: Final = re.compile(r"(.+)\.[0-9a-f]{8}\.tmp")

_log = logging.getLogger(__name__)


def temporary_path(path: str) -> str:
    """Where the next content of a file is written."""
    return f"{path}.{secrets.token_hex(4)}.tmp"


def remove_temporaries(disk: Disk, directory: str, of: str | None = None) -> None:
    """Remove what was left behind in a directory, for all files in it or for ``of``.

    Nobody else may be writing there. A failure is logged.
    """
    try:
        for name in disk.list(directory):
            found = _NAME.fullmatch(name)
            if found is not None and of in (None, found[1]):
                disk.remove(os.path.join(directory, name))
    except StorageError as error:  # they are in nobody's way
        _log.warning("cannot remove temporary files - %s", error)
