"""Changes of a program's properties by commands, written into its file for the next start."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set

from penstock.core.errors import ConfigError, PenstockError
from penstock.core.settings import java_properties
from penstock.rocketmq.java_settings import JavaSettings
from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.files.disk import Disk
from penstock.storage.files.temporary import remove_temporaries


def asked(body: bytes | memoryview) -> dict[str, str]:
    """The properties that the body of a command sets. Raises BodyError."""
    try:
        return java_properties.loads(bytes(body).decode())
    except UnicodeDecodeError:
        raise BodyError("the properties are not UTF-8") from None
    except ConfigError as error:
        raise BodyError(f"the properties are malformed: {error}") from None


def apply(
    disk: Disk, path: str, settings: JavaSettings, values: dict[str, str], fixed: Set[str]
) -> tuple[dict[str, str], list[str]]:
    """Apply these properties to ``settings`` and the file; returns the known and the unknown ones.

    Raises ConfigError or StorageError, and then neither has changed.
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
    """Put these properties into the file, whose previous content is kept as ``<path>.bak``.

    Other properties stay as they are, comments are lost. The new content is parsed before it is
    written: it must hold what was asked and no more, and ``fixed`` properties must not change.
    Raises ConfigError or StorageError, and then the file has not changed.
    """
    directory, name = os.path.dirname(path) or ".", os.path.basename(path)
    disk.make_directory(directory)
    for each in (name, f"{name}.bak"):
        remove_temporaries(disk, directory, each)
    before = disk.read_file(path)
    try:
        kept = java_properties.loads((before or b"").decode())
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8") from None
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
