"""Owners and modes in a data path: files that nsqd cannot use, or that anybody may change."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from penstock.cli.doctor.report import Finding, error, warning
from penstock.core.counted import counted

_REMEDY = "chown -R USER {path} && chmod -R u+rwX,o-w {path}, where USER runs nsqd."


def examine_permissions(path: str) -> Iterator[Finding]:
    """Compare everything below a data path with the owner of the path itself."""
    owner = os.stat(path).st_uid
    unusable, foreign, open_to_all = [], [], []
    for each, found in _everything(path):
        wanted = stat.S_IRWXU if stat.S_ISDIR(found.st_mode) else stat.S_IRUSR | stat.S_IWUSR
        if found.st_mode & wanted != wanted:
            unusable.append(each)
        if found.st_uid != owner:
            foreign.append(each)
        if found.st_mode & stat.S_IWOTH:
            open_to_all.append(each)
    remedy = _REMEDY.format(path=path)
    for level, names, what in (
        (error, unusable, "its owner may not read and write"),
        (error, foreign, "belongs to another user than the data path does"),
        (warning, open_to_all, "may be changed by everybody"),
    ):
        if names:
            more = f" and {counted(len(names) - 1, 'other')}" if len(names) > 1 else ""
            yield level("permissions", names[0] + more, what, remedy)


def _everything(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """The path and all below it; what cannot be listed is left to those who read it."""
    yield path, os.stat(path)
    for directory, folders, files in os.walk(path):
        for name in (*folders, *files):
            each = os.path.join(directory, name)
            try:
                yield each, os.lstat(each)
            except FileNotFoundError:  # a running node has removed it
                continue
