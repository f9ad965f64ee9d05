"""The table of the client's options in docs/client.md, made of what `Config` declares.

`make client-options` writes it there, `test_client_options.py` checks that it did.
"""

from __future__ import annotations

from pathlib import Path

from penstock.net.client_options import CODE_ONLY, TEXT, Option
from penstock.nsq.client.config import OPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
BEGIN = "<!-- options: written by `make client-options` -->\n"
END = "<!-- end of options -->\n"


def default(each: Option) -> str:
    """The default as a text that `with_option` would take."""
    if each.name == "user_agent":
        return "`penstock/<version>`"  # so that a release does not change the page
    if each.kind is CODE_ONLY or each.default == "":
        return ""
    return f"`{each.kind.show(each.default)}`"


def kind(each: Option) -> str:
    return "" if each.kind is TEXT else each.kind.word


def table() -> str:
    """The whole table."""
    rows = [
        f"| `{each.name}` | {kind(each)} | {default(each)} | {each.range} | {each.help} |"
        for each in OPTIONS.values()
    ]
    head = ["| option | kind | default | range | |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def split(page: str) -> tuple[str, str, str]:
    """The page before the table, the table, and what follows it."""
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:start], page[start:end], page[end:]


def main() -> None:
    """Write the table into the page."""
    before, _, after = split(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(f"{before}\n{table()}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
