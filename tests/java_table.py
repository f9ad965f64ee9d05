"""The table of `docs/from-rocketmq.md`: upstream's examples, Java's calls, and ours."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tools.pages.documentation import DOCS

_PAGE: Final = DOCS / "from-rocketmq.md"
_CELLS: Final = re.compile(r"(?<!\\)\|")
_SPAN: Final = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    """One example: the names of upstream's classes, and lines of code of both."""

    example: str
    java: list[str]
    ours: list[str]

    @property
    def is_shell(self) -> bool:
        """True where ours is a program, not a call."""
        return self.ours[0].startswith(("make ", "mqadmin "))

    @property
    def is_of_5(self) -> bool:
        """True for what Java's 4.9 does not have."""
        return "(5.x)" in self.example


def rows() -> list[Row]:
    """The rows of the page's table of examples."""
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("| upstream's example |"))
    found = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        example, java, ours = (_lines(cell) for cell in _CELLS.split(line)[1:4])
        found.append(Row(", ".join(example), java, ours))
    return found


def _lines(cell: str) -> list[str]:
    """What stands between backticks, each with the blanks before it; the example's with notes."""
    found = []
    for part in cell.replace("\\|", "|").split("<br>"):
        blanks = " " * part.replace("&nbsp;", " ").find("`") if "&nbsp;" in part else ""
        found += [blanks + span for span in _SPAN.findall(part)]
    if "(5.x)" in cell:
        found.append("(5.x)")
    return found
