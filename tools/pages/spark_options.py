"""The tables of options in docs/spark.md, made of what their settings declare.

`make pages` writes them there, tests of the settings check that it did.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.spark.channel.channel_settings import ChannelSettings
from penstock.spark.option_declarations import table
from penstock.spark.rocketmq.rocketmq_settings import RocketmqSettings
from penstock.spark.sink import sink_settings as sink
from penstock.spark.sink.rocketmq import rocketmq_sink_settings as rocketmq_sink
from penstock.spark.source_settings import SourceSettings

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
CHANNEL: Final = " of a channel"
SINK: Final = " of the sink"
ROCKETMQ_SINK: Final = " of the sink rocketmq"
TABLES: Final = {
    "": table(SourceSettings),
    CHANNEL: table(ChannelSettings, beside=SourceSettings),
    " of rocketmq": table(RocketmqSettings, beside=SourceSettings),
    SINK: table(sink.SinkSettings, beside=SourceSettings),
    ROCKETMQ_SINK: table(rocketmq_sink.RocketmqSinkSettings, beside=sink.SinkSettings),
}
"""By what their marks add to the word options."""


def split(page: str, of: str = "") -> tuple[str, str, str]:
    """The page before a table, the table, and what follows it."""
    begin, end_mark = (
        f"<!-- options{of}: written by `make pages` -->\n",
        f"<!-- end of options{of} -->\n",
    )
    start, end = page.index(begin) + len(begin), page.index(end_mark)
    return page[:start], page[start:end], page[end:]


def main() -> None:
    """Write the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    for of, found in TABLES.items():
        before, _, after = split(page, of)
        page = f"{before}\n{found}\n{after}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
