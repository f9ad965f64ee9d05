"""The tables of the clients' options in the documentation, made of what each `Config` declares.

`make pages` writes them there, `test_client_options.py` checks that it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.core.settings.client_options import (
    CODE_ONLY,
    Option,
)
from penstock.core.settings.option_kinds import STRING
from penstock.nsq.client.config import OPTIONS
from penstock.rocketmq.client.config import OPTIONS as ROCKETMQ_OPTIONS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {DOCS / "client.md": OPTIONS, DOCS / "rocketmq-client.md": ROCKETMQ_OPTIONS}
BEGIN = "<!-- options: written by `make pages` -->\n"
END = "<!-- end of options -->\n"


def default(each: Option) -> str:
    """The default as a text that `with_option` would take."""
    if each.name == "user_agent":
        return "`penstock/<version>`"  # so that a release does not change the page
    if each.kind is CODE_ONLY or each.default == "":
        return ""
    return f"`{each.kind.show(each.default)}`"


def kind(each: Option) -> str:
    if each.kind is STRING:
        return ""
    return "bool" if each.kind.is_switch else each.kind.placeholder


def table(options: Mapping[str, Option]) -> str:
    """The whole table of a client."""
    rows = [
        f"| `{each.name}` | {kind(each)} | {default(each)} | {each.range} | {each.help} |"
        for each in options.values()
    ]
    head = ["| option | kind | default | range | |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def split(page: str) -> tuple[str, str, str]:
    """The page before the table, the table, and what follows it."""
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:start], page[start:end], page[end:]


def main() -> None:
    """Write the tables into their pages."""
    for page, options in PAGES.items():
        before, _, after = split(page.read_text(encoding="utf-8"))
        page.write_text(f"{before}\n{table(options)}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
