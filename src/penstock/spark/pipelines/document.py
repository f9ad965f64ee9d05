"""A pipeline's file as tables, which know the lines where their keys stand."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from penstock.core.errors import ConfigError

_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*["']?([^\s"'=.]+)["']?\s*[=.]""")
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_SYNTAX_PLACE = re.compile(r"^(.*) \(at line (\d+), column (\d+)\)$")


class PipelineFileError(ConfigError):
    """A pipeline's file cannot be used; the message names file, line and table."""


class Document:
    """A file's tables. ``name`` is how messages call it."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._lines = _places(text)
        try:
            self.tables: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise PipelineFileError(_syntax(name, str(error))) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Document:
        """The document of a file. Raises PipelineFileError."""
        try:
            return cls(os.fspath(path), Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise PipelineFileError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise PipelineFileError(f"{path} is not UTF-8 text: name a pipeline's file") from None

    def error(self, table: str, key: str | None, said: str) -> PipelineFileError:
        """The error that names the place of a key, or of its table's header."""
        line = self._lines.get((table, key or "")) or self._lines.get((table, ""))
        place = f"{self.name}:{line}" if line else self.name
        header = table.partition("#")[0]
        shown = f"[[{header}]] " if header != table else f"[{table}] " if table else ""
        return PipelineFileError(f"{place}: {shown}{said}")

    def line(self, table: str, key: str = "") -> int:
        """The line of a key, or of a table's header; 0 where it is not to be seen."""
        return self._lines.get((table, key), 0)

    def require_known(self, table: str, given: Iterable[str], known: Iterable[str]) -> None:
        """Raise PipelineFileError for the first key that is not known, with the nearest one."""
        names = list(known)
        for key in given:
            if key not in names:
                kind = "key" if table else "table"
                raise self.error(
                    table or key, key, f"there is no {kind} {key}{nearest(key, names)}"
                )


def nearest(unknown: str, names: Iterable[str]) -> str:
    """``; did you mean NAME?``, or the names there are."""
    lower = {name.lower(): name for name in names}
    near = get_close_matches(unknown.lower(), lower, n=1)
    if near:
        return f"; did you mean {lower[near[0]]}?"
    return f"; there are {', '.join(lower.values())}"


def filled(text: str, variables: Mapping[str, str]) -> str:
    """The text with ``${NAME}`` and ``${NAME:-default}`` replaced. Raises KeyError for a name."""

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        return variables[name] if default is None else variables.get(name, default)

    return _VARIABLE.sub(value, text)


def _syntax(name: str, said: str) -> str:
    """The parser's complaint with its place in front, as other tools have it."""
    found = _SYNTAX_PLACE.match(said)
    if found is None:
        return f"{name}: {said}"
    return f"{name}:{found[2]}: column {found[3]}: {found[1][0].lower()}{found[1][1:]}"


def _places(text: str) -> dict[tuple[str, str], int]:
    """Line numbers of headers, with an empty key, and of keys.

    Tables of an array are counted: ``tests#0``. The parser of the standard library tells no places,
    so lines are looked at; those inside of a text of several lines are left out.
    """
    places: dict[tuple[str, str], int] = {}
    counts: dict[str, int] = {}
    table, inside = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if not inside:
            if header := _HEADER.match(line):
                table = header[1]
                if line.lstrip().startswith("[["):
                    counts[table] = counts.get(table, -1) + 1
                    table = f"{table}#{counts[table]}"
                places.setdefault((table, ""), number)
            elif key := _KEY.match(line):
                places.setdefault((table, key[1]), number)
        inside = _after(line, inside)
    return places


def _after(line: str, inside: str) -> str:
    """The quotes that a text of several lines still waits for after this line."""
    rest = line
    while True:
        marks = [inside] if inside else ['"""', "'''"]
        found = [(rest.find(each), each) for each in marks if each in rest]
        if not found:
            return inside
        at, mark = min(found)
        rest = rest[at + 3 :]
        inside = "" if inside else mark
