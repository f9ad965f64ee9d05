"""The log of Spark's file sink, ``_spark_metadata``: the files that a folder consists of.

Each batch writes a file that is named for its number. Every tenth, by default, is ``9.compact`` and
repeats all that stood before it; readers take the newest of these and the batches after it. So what
a ``.compact`` lists is settled, and to replace this one file changes it for all readers at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.core.errors import StorageError

FOLDER: Final = "_spark_metadata"
_SUFFIX: Final = ".compact"
_VERSION: Final = "v1"


@dataclass(frozen=True, slots=True)
class Written:
    """A file that took the place of others; ``modified_ms`` is since 1970."""

    path: Path
    size: int
    modified_ms: int


class SinkLog:
    """A ``.compact`` file. ``files`` are those that it lists, in the order of their batches."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        version, *lines = text.splitlines() or [""]
        if version != _VERSION:
            raise StorageError(f"{path}: version {version[:20]!r} of Spark's log is not known")
        self._entries: list[tuple[Path, dict[str, Any]]] = []
        for number, line in enumerate(lines, 2):
            try:
                entry = json.loads(line)
                self._entries.append((_local(entry["path"]), entry))
            except (ValueError, KeyError, TypeError):
                raise StorageError(f"{path}:{number}: no entry of Spark's log") from None

    @property
    def files(self) -> list[Path]:
        return [path for path, _ in self._entries]

    def replaced(self, merges: Mapping[Written, Sequence[Path]]) -> str:
        """The text with each of these in place of the first of its old files, without the others.

        What was replaced before is left as it is.
        """
        taker = {old: new for new, olds in merges.items() for old in olds}
        told: set[Path] = set()
        entries = []
        for path, entry in self._entries:
            new = taker.get(path)
            if new is None:
                entries.append(entry)
            elif new.path not in told:
                told.add(new.path)
                entries.append(_renamed(entry, new))
        return "\n".join([_VERSION, *map(_line, entries)])


def exists(root: Path) -> bool:
    """True if Spark keeps a log of this folder."""
    return (root / FOLDER).is_dir()


def settled(root: Path) -> SinkLog | None:
    """The newest ``.compact`` of a folder; None before the first one. Raises StorageError."""
    newest = _newest(root / FOLDER)
    if newest is None:
        return None
    try:
        return SinkLog(newest, newest.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"{newest}: {error.strerror}") from None


def listed(log_folder: Path) -> list[Path]:
    """All files that the log in this folder lists, those of its last batches as well.

    The paths are those at which Spark wrote them: the archive may lie elsewhere today. Raises
    StorageError.
    """
    try:
        newest = _newest(log_folder)
        since = -1 if newest is None else int(newest.stem)
        logs = [newest] if newest else []
        logs += [path for path in log_folder.iterdir() if _number(path) > since]
        return [f for log in logs for f in SinkLog(log, log.read_text(encoding="utf-8")).files]
    except OSError as error:
        raise StorageError(f"{log_folder} cannot be read: {error.strerror}") from None


def checksum(path: Path) -> Path:
    """Hadoop's checksums of a file, beside it; without that file nothing is verified."""
    return path.with_name(f".{path.name}.crc")


def _newest(log_folder: Path) -> Path | None:
    names: Iterable[Path] = log_folder.glob(f"*{_SUFFIX}")
    batches = {int(path.stem): path for path in names if path.stem.isdecimal()}
    return batches[max(batches)] if batches else None


def _number(path: Path) -> int:
    return int(path.name) if path.name.isdecimal() else -1


def _local(url: str) -> Path:
    """The path of a ``file:///`` URL, percent signs decoded."""
    return Path(unquote(urlsplit(url).path))


def _renamed(entry: Mapping[str, Any], new: Written) -> dict[str, Any]:
    folder = entry["path"].rpartition("/")[0]
    return {
        **entry,
        "path": f"{folder}/{new.path.name}",
        "size": new.size,
        "modificationTime": new.modified_ms,
    }


def _line(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
