"""The files of an archive where they lie: known by their names, and visible when they are whole.

A file is written under a name that readers pass over, with a dot before it and no format's ending
behind it, then renamed over whatever is there. Everything goes through ``pyarrow.fs``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from posixpath import basename
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from penstock.spark.archive.names import HIDDEN, FileName
from penstock.spark.errors import SinkError

_UNFINISHED: Final = re.compile(r"\.(?P<topic>[^@]+)@[0-9a-f]{32}\.unfinished")
_SCHEME: Final = re.compile(r"([a-zA-Z][\w+.-]*):")
# Hadoop's schemes for what pyarrow calls s3.
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
_SERVED: Final = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")


class Files(NamedTuple):
    """The names of an archive's files, and the paths of others, which readers would see, too."""

    ours: list[FileName]
    others: list[str]


class Store:
    """The folder of an archive. What fails is a SinkError, which names the file."""

    def __init__(self, files: fs.FileSystem, root: str) -> None:
        self.root = root
        self._files = files

    @classmethod
    def open(cls, root: str) -> Store:
        """The folder at an absolute path, or at a URI that ``serves`` is true of."""
        scheme = _SCHEME.match(root)
        if scheme is None:
            return cls(fs.LocalFileSystem(), root.rstrip("/"))
        try:
            files, path = fs.FileSystem.from_uri(
                _SCHEMES.get(scheme[1], scheme[1]) + root[scheme.end() - 1 :]
            )
        except (OSError, ValueError, pa.ArrowException) as error:
            why = str(error).partition("\n")[0]
            raise SinkError(
                f'{root} cannot be opened by pyarrow: {why}. Without writer = "arrow" in [sink] '
                "Spark writes there"
            ) from error
        return cls(files, path.rstrip("/"))

    def has(self, name: str) -> bool:
        """True if there is a file or a folder of this name in it."""
        path = f"{self.root}/{name}"
        try:
            return bool(self._files.get_file_info(path).type != fs.FileType.NotFound)
        except OSError as error:
            raise SinkError(f"archive {self.root} cannot be read: {error}") from error

    def files(self, topics: Callable[[str], bool]) -> Files:
        """The files that are there.

        Those that a kill has left unfinished are removed, of ``topics`` that are ours to write.
        """
        found = Files([], [])
        selector = fs.FileSelector(self.root, allow_not_found=True, recursive=True)
        try:
            for each in self._files.get_file_info(selector):
                name = basename(each.path)
                if (ours := FileName.read(name)) is not None:
                    found.ours.append(ours)
                elif (left := _UNFINISHED.fullmatch(name)) and topics(left["topic"]):
                    self._files.delete_file(each.path)
                elif each.type == fs.FileType.File and not _is_hidden(each.path, self.root):
                    found.others.append(each.path)
        except OSError as error:
            raise SinkError(f"archive {self.root} cannot be listed: {error}") from error
        return found

    def create(self, folder: str, topic: str) -> Unfinished:
        """A file to write in a folder below the root, which is made if it is not there."""
        directory = f"{self.root}/{folder}" if folder else self.root
        path = f"{directory}/.{topic}@{uuid4().hex}.unfinished"
        try:
            self._files.create_dir(directory, recursive=True)
            return Unfinished(self._files, directory, path)
        except OSError as error:
            raise SinkError(f"{path} cannot be written: {error}") from error


class Unfinished:
    """A file that nobody sees yet: ``publish`` it, or ``discard`` it."""

    def __init__(self, files: fs.FileSystem, directory: str, path: str) -> None:
        self._files = files
        self._directory = directory
        self._path = path
        self.stream = files.open_output_stream(path)

    def publish(self, name: FileName) -> str:
        """Show it under this name, in place of one that is there; its path. ``stream`` is closed
        before. Raises OSError.
        """
        path = f"{self._directory}/{name}"
        try:
            self._files.move(self._path, path)
        except OSError:
            # HDFS renames over nothing. What is there has the same messages.
            if self._files.get_file_info(path).type != fs.FileType.File:
                raise
            self._files.delete_file(path)
            self._files.move(self._path, path)
        return path

    def discard(self) -> None:
        """Remove it, if that can be done: the next start removes what is left."""
        with suppress(OSError, ValueError):
            self.stream.close()
        with suppress(OSError):
            self._files.delete_file(self._path)


def _is_hidden(path: str, root: str) -> bool:
    """True for what readers pass over: a name below the root begins with ``_`` or a dot."""
    return any(part.startswith(HIDDEN) for part in path[len(root) :].split("/"))


def serves(root: str) -> bool:
    """True for a path, and for a URI of a file system that pyarrow knows."""
    scheme = _SCHEME.match(root)
    return scheme is None or _SCHEMES.get(scheme[1], scheme[1]) in _SERVED
