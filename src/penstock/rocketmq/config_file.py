"""What a command changes of a program's properties, written into its file for the next start."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set

from penstock.core import java_properties
from penstock.core.errors import ConfigError, PenstockError
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.settings import Settings
from penstock.storage.disk import Disk
from penstock.storage.temporary import remove_temporaries


def asked(body: bytes | memoryview) -> dict[str, str]:
    """The properties that the body of a command sets. Raises BodyError."""
    try:
        return java_properties.loads(bytes(body).decode())
    except UnicodeDecodeError:
        raise BodyError("the properties are no UTF-8") from None
    except ConfigError as error:
        raise BodyError(f"the properties make no sense: {error}") from None


def apply(
    disk: Disk, path: str, settings: Settings, values: dict[str, str], fixed: Set[str]
) -> tuple[dict[str, str], list[str]]:
    """Let ``settings`` and the file take over these properties; the known and the unknown ones.

    Raises ConfigError or StorageError, and neither has changed then.
    """
    before = dict(vars(settings))
    unknown = settings.update(values)
    known = {name: value for name, value in values.items() if name not in unknown}
    try:
        if known:
            store(disk, path, known, fixed)
    except PenstockError:
        vars(settings).clear()
        vars(settings).update(before)
        raise
    return known, unknown


def store(disk: Disk, path: str, values: Mapping[str, str], fixed: Set[str]) -> None:
    """Put these properties into the file, whose content so far stays behind as ``<path>.bak``.

    Other properties stay as they are, comments do not. The new content is read back before it is
    written: it must say what was asked and no more, and of ``fixed`` properties nothing new.
    Raises ConfigError or StorageError, and the file has not changed then.
    """
    directory, name = os.path.dirname(path) or ".", os.path.basename(path)
    disk.make_directory(directory)
    for each in (name, f"{name}.bak"):
        remove_temporaries(disk, directory, each)
    before = disk.read_file(path)
    try:
        kept = java_properties.loads((before or b"").decode())
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no UTF-8") from None
    wanted = {**kept, **values}
    text = java_properties.dumps(wanted)
    found = java_properties.loads(text)
    changed = {name for name in fixed if found.get(name) != kept.get(name)}
    if found != wanted or changed:
        which = ", ".join(sorted(changed)) or "other properties"
        raise ConfigError(f"{path} would set {which} too: the change is refused")
    if before:
        disk.replace_file(f"{path}.bak", before)
    disk.replace_file(path, text.encode())
