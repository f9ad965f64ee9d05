"""A query as Spark runs it, in a program that may be killed at any moment.

Arguments: the source's options as JSON, and a folder. Plans and commits are files. A batch is
written twice if it is run twice, so that a test can compare.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.spark.channel.channel_settings import ChannelSettings
from penstock.spark.channel.stream import ChannelStreamReader

COLUMNS = ("id", "body", "attempts")


def put(path: Path, value: Any) -> None:
    """Write JSON, whole or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value))
    temporary.rename(path)


def plans(folder: Path) -> int:
    """The number of plans; a kill may have left one that is not whole."""
    return sum(path.suffix != ".tmp" for path in folder.glob("plan-*"))


def run_batch(reader: ChannelStreamReader, folder: Path, number: int) -> None:
    """Run a planned batch and commit it."""
    plan = json.loads((folder / f"plan-{number}").read_text())
    rows = []
    for partition in reader.partitions(plan["start"], plan["end"]):
        for batch in reader.read(partition):
            columns = (batch.column(name).to_pylist() for name in COLUMNS)
            rows += [(id, body.decode(), tries) for id, body, tries in zip(*columns, strict=True)]
    put(folder / f"rows-{number}-{os.getpid()}", rows)
    put(folder / f"commit-{number}", None)


def main() -> None:
    """Run batch after batch, from where the last process was."""
    given, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
    reader = ChannelStreamReader(ChannelSettings.parse(given), COLUMNS)
    number = plans(folder)
    if number:
        at = json.loads((folder / f"plan-{number - 1}").read_text())["end"]
        if not (folder / f"commit-{number - 1}").exists():
            run_batch(reader, folder, number - 1)
    else:
        at = reader.initialOffset()
    while True:
        end = reader.latestOffset(at, ReadAllAvailable())
        if end != at:
            put(folder / f"plan-{number}", {"start": at, "end": end})
            run_batch(reader, folder, number)
            at, number = end, number + 1


if __name__ == "__main__":
    main()
