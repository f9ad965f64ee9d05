"""The output of a sub-command: tables and sentences, or one JSON object of the same rows.

A ``Table`` has its columns once: the format of ``printf`` gives the widths of head and rows, the
fields the names in JSON. Text is printed as it comes; JSON is printed at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_CONVERSION: Final = re.compile(r"%(-?\d+)?(?:\.\d+)?[dfs]")


class Shown(str):
    """A text for people with the value that JSON has in its place."""

    raw: Any

    def __new__(cls, text: str, raw: Any) -> Shown:
        shown = super().__new__(cls, text)
        shown.raw = raw
        return shown


@dataclass(frozen=True, slots=True)
class Table:
    """Columns: ``titles`` as they are printed, ``fields`` as JSON names them.

    ``head_format`` is for a head whose widths differ from the rows'.
    """

    name: str
    row_format: str
    fields: str
    titles: tuple[str, ...] = ()
    head_format: str = ""

    def head(self) -> str:
        """The line with the titles."""
        as_texts = _CONVERSION.sub(lambda found: f"%{found[1] or ''}s", self.row_format)
        return (self.head_format or as_texts) % self.titles

    def line(self, *values: object) -> str:
        """The line of a row."""
        return self.row_format % values

    def record(self, *values: object) -> dict[str, Any]:
        """The row in JSON."""
        names = self.fields.split()
        return dict(zip(names, map(_raw, values), strict=True))


def _raw(value: object) -> Any:
    return value.raw if isinstance(value, Shown) else value


class Output:
    """The collector of what sub-commands have to tell; ``write`` gets the text for stdout."""

    def __init__(self, write: Callable[[str], object], *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._write = write
        self._facts: dict[str, Any] = {}

    def text(self, text: str) -> None:
        """Print this for people; JSON has it elsewhere."""
        if not self.as_json:
            self._write(text)

    def fact(self, name: str, value: Any) -> None:
        """A member of the JSON object."""
        self._facts[name] = value

    def add(self, name: str, value: Any) -> None:
        """One more of a list in the JSON object."""
        if self.as_json:
            self._facts.setdefault(name, []).append(value)

    def say(self, text: str, **facts: Any) -> None:
        """A sentence, and in JSON an object with it and these facts among ``results``."""
        if not self.as_json:
            self._write(text)
            return
        self.add("results", {"text": text.strip(), **facts})

    def head(self, table: Table) -> None:
        """The titles of a table."""
        if not self.as_json:
            self._write(table.head() + "\n")
            return
        self._facts.setdefault(table.name, [])

    def row(self, table: Table, *values: object) -> None:
        """A row of a table."""
        if not self.as_json:
            self._write(table.line(*values) + "\n")
            return
        self.add(table.name, table.record(*values))

    def fail(self, reason: str, code: int | None = None) -> None:
        """The end, because of this; in JSON only, people find it on stderr."""
        self._facts["error"] = reason
        if code is not None:
            self._facts["code"] = code

    def finish(self) -> None:
        """Print the JSON object, and begin another."""
        if self.as_json:
            self._write(json.dumps(self._facts, ensure_ascii=False, indent=2) + "\n")
        self._facts = {}
