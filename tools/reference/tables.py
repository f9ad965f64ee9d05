"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The whole table, with an empty line behind it."""
    lines = [_line(head), _line(["---"] * len(head)), *(_line(_escaped(row)) for row in rows)]
    return "\n".join([*lines, "", ""])


def code(text: str) -> str:
    """The text in the letters of code; nothing where there is none."""
    return f"`{text}`" if text else ""


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(row: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|").replace("\n", " ") for cell in row]
