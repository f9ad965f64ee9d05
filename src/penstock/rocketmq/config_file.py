"""What a command changes of a program's properties, written into its file for the next start."""

from __future__ import annotations

import os
from collections.abc import Mapping

from penstock.core import java_properties
from penstock.core.errors import ConfigError
from penstock.storage.disk import Disk


def store(disk: Disk, path: str, values: Mapping[str, str]) -> None:
    """Put these properties into the file, whose content so far stays behind as ``<path>.bak``.

    Other properties stay as they are, comments do not. Raises ConfigError or StorageError, and the
    file has not changed then.
    """
    disk.make_directory(os.path.dirname(path) or ".")
    before = disk.read_file(path)
    try:
        kept = java_properties.loads((before or b"").decode())
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no UTF-8") from None
    if before:
        disk.replace_file(f"{path}.bak", before)
    disk.replace_file(path, java_properties.dumps({**kept, **values}).encode())
