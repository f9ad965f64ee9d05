"""The table of nsq_stat: byte for byte Go's where a program reads it, coloured for people.

On a terminal zeros are dim, what grows or went wrong since the row before stands out, columns widen
for big numbers, and a narrow terminal gets narrow columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TextIO

from penstock.cluster.stats import ChannelStats

if TYPE_CHECKING:
    from rich.console import Console


class Row(NamedTuple):
    """A line of the report: rates in messages a second, and what the channel holds now."""

    ingress: int
    egress: int
    total: int
    mem: int
    disk: int
    inflt: int
    deferred: int
    requeued: int
    timed_out: int
    messages: int
    clients: int

    @classmethod
    def of(cls, before: ChannelStats, now: ChannelStats, seconds: float) -> Row:
        """The row of a channel, from its figures now and ``seconds`` earlier."""
        came = now.message_count - before.message_count
        # Go computes the messages that left: what came, less what the depth grew by.
        left = came - (now.depth - before.depth)
        return cls(
            int(came / seconds),
            int(left / seconds),
            now.depth,
            now.memory_depth,
            now.backend_depth,
            now.in_flight_count,
            now.deferred_count,
            now.requeue_count,
            now.timeout_count,
            now.message_count,
            now.client_count,
        )


_NAMES: Final = ("ingress", "egress", "total", "mem", "disk", "inflt", "def", "req", "t-o", "msgs",
                 "clients")  # fmt: skip
_WIDTHS: Final = (7, 7, 7, 7, 7, 5, 5, 7, 7, 12, 7)
_NARROW: Final = (7, 6, 5, 5, 4, 5, 3, 3, 3, 4, 7)
_GROUPS: Final = (("rate", 0, 2), ("depth", 2, 7), ("metadata", 7, 11))
_RULES: Final = (
    "------rate------",
    "----------------depth----------------",
    "--------------metadata---------------",
)
_WIDE: Final = len("+".join(_RULES))


class Table(Protocol):
    """The table that the report goes to."""

    def header(self) -> None:
        """The names of the columns."""
        ...

    def row(self, row: Row) -> None:
        """One report."""
        ...


class PlainTable:
    """The report as Go prints it."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def header(self) -> None:
        """The names of the columns."""
        self._print("+".join(_RULES))
        self._print(_line(_NAMES, _WIDTHS))

    def row(self, row: Row) -> None:
        """One report."""
        self._print(_line(list(map(str, row)), _WIDTHS))

    def _print(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()


class ColourTable:
    """The report for a person at a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._widths = list(_WIDTHS if console.width >= _WIDE else _NARROW)
        self._before: Row | None = None

    def header(self) -> None:
        """The names of the columns, under the names of their groups."""
        rules = [
            f" {name} ".center(len(_line(_NAMES[start:end], self._widths[start:end])), "─")
            for name, start, end in _GROUPS
        ]
        self._print("─┬─".join(rules), "bright_black")
        self._print(_line(_NAMES, self._widths, bar="│"), "bold")

    def row(self, row: Row) -> None:
        """One report, its numbers coloured."""
        from rich.text import Text

        widths = [
            max(len(str(value)), width) for value, width in zip(row, self._widths, strict=True)
        ]
        if widths != self._widths:
            self._widths = widths
            self.header()
        line = Text()
        for index, (value, width) in enumerate(zip(row, widths, strict=True)):
            if index in (2, 7):
                line.append(" │", "bright_black")
            style = self._style(index, row)
            line.append(" " if index else "").append(f"{value:>{width}}", style)
        self._console.print(line, no_wrap=True, crop=False, soft_wrap=True)
        self._before = row

    def _style(self, index: int, row: Row) -> str:
        before, name = self._before, Row._fields[index]
        if name == "clients":
            return "bold" if row.clients else "red"
        if not row[index]:
            return "bright_black"
        if name in ("ingress", "egress"):
            return "green" if name == "ingress" else "cyan"
        grew = before is not None and row[index] > before[index]
        if name in ("requeued", "timed_out"):
            return "red" if grew else ""
        return "yellow" if grew and name in ("total", "mem", "disk") else ""

    def _print(self, text: str, style: str) -> None:
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _line(words: Sequence[str], widths: Sequence[int], bar: str = "|") -> str:
    """The words right-aligned, with bars between the groups where there are all of them."""
    cells = [f"{word:>{width}}" for word, width in zip(words, widths, strict=True)]
    if len(cells) < len(_NAMES):
        return " ".join(cells)
    groups = [" ".join(cells[start:end]) for _, start, end in _GROUPS]
    return f" {bar} ".join(groups)
