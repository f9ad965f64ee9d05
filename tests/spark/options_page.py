"""The table of the source's options in docs/spark.md, made of what `Settings` declares.

`make spark-options` writes it there, `test_settings.py` checks that it did.
"""

from __future__ import annotations

from pathlib import Path

from penstock.spark.options import table
from penstock.spark.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
BEGIN = "<!-- options: written by `make spark-options` -->\n"
END = "<!-- end of options -->\n"


def split(page: str) -> tuple[str, str, str]:
    """The page before the table, the table, and what follows it."""
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:start], page[start:end], page[end:]


def main() -> None:
    """Write the table into the page."""
    before, _, after = split(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(f"{before}\n{table(Settings)}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
