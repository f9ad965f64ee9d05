"""The list of mqadmin's sub-commands in the documentation, made of the table that parses them.

`make pages` writes it, `test_mqadmin_page.py` checks that it did.
"""

from __future__ import annotations

from pathlib import Path

from penstock.rocketmq.mqadmin.posix_parser import SubCommand
from penstock.rocketmq.mqadmin.sub_commands import SUB_COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "mqadmin.md"
BEGIN = "<!-- sub-commands: written by `make pages` -->\n"
END = "<!-- end of sub-commands -->\n"


def _row(command: SubCommand) -> str:
    name = f"`{command.name}`" + (f" (`{command.alias}`)" if command.alias else "")
    return f"| {name} | {command.help.rstrip('.!')} |"


def table() -> str:
    """The whole table."""
    head = ["| sub-command | |", "|---|---|"]
    rows = sorted(map(_row, SUB_COMMANDS), key=str.lower)
    return "\n".join(["", *head, *rows, "", ""])


def split(page: str) -> tuple[str, str, str]:
    """The page before the table, the table, and what follows it."""
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:start], page[start:end], page[end:]


def main() -> None:
    """Write the table into the page."""
    before, _, after = split(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(before + table() + after, encoding="utf-8")


if __name__ == "__main__":
    main()
