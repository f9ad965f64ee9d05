"""The tables of options in docs/spark.md, made of what each `Settings` declares.

`make spark-options` writes them there, each `test_settings.py` checks that it did.
"""

from __future__ import annotations

from pathlib import Path

from penstock.spark import settings
from penstock.spark.options import table
from penstock.spark.sink import settings as sink_settings

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
SOURCE = "options"
SINK = "options of the sink"
SETTINGS = {SOURCE: settings.Settings, SINK: sink_settings.Settings}


def split(page: str, name: str = SOURCE) -> tuple[str, str, str]:
    """The page before a table, the table, and what follows it."""
    begin, end = f"<!-- {name}: written by `make spark-options` -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = page.partition(begin)
    written, found, after = rest.partition(end)
    assert found, f"the page has no place for the {name}"
    return before + begin, written, end + after


def main() -> None:
    """Write the tables into the page."""
    for name, declared in SETTINGS.items():
        before, _, after = split(PAGE.read_text(encoding="utf-8"), name)
        PAGE.write_text(f"{before}\n{table(declared)}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
