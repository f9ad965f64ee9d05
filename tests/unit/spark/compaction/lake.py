"""An archive as Spark's file sink writes it, and its rows as two kinds of readers find them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HOURS = (12, 13)
SETTLED = 10
BATCHES = 12
ROWS = 7
LOG = "_spark_metadata"


def folder_of(lake: Path, hour: int) -> Path:
    # Spark writes what a path cannot have as %23, which its log has with %25 for the percent sign.
    return lake / "topic=t%23ephemeral" / "date=2026-01-01" / f"hour={hour}"


def table(first: int, count: int) -> pa.Table:
    numbers = list(range(first, first + count))
    times = pa.array([1_767_270_000_000_000 + each for each in numbers], pa.timestamp("us"))
    bodies = pa.array([b"%d" % each for each in numbers], pa.binary())
    columns = [times, pa.array(numbers, pa.int64()), bodies]
    return pa.table(columns, names=["timestamp", "offset", "body"])


def make(lake: Path, batches: int = BATCHES) -> Path:
    """Batches of a file in each folder; the last two are not settled."""
    (lake / LOG).mkdir(parents=True)
    settled = []
    for batch in range(batches):
        entries = [entry(add(lake, hour, batch)) for hour in HOURS]
        settled += entries if batch < SETTLED else []
        lines = settled if batch == SETTLED - 1 else entries
        name = f"{batch}.compact" if batch == SETTLED - 1 else str(batch)
        (lake / LOG / name).write_text("\n".join(["v1", *lines]))
        (lake / LOG / f".{name}.crc").write_bytes(b"crc")
    return lake


def add(lake: Path, hour: int, batch: int) -> Path:
    """A file of a batch, as Spark writes it."""
    folder = folder_of(lake, hour)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"part-00000-{batch:04d}-{hour}.c000.zstd.parquet"
    rows = table((hour * 100 + batch) * ROWS, ROWS)
    with pq.ParquetWriter(
        file, rows.schema, compression="zstd", use_dictionary=False, store_schema=False,
        write_statistics=["timestamp"], use_deprecated_int96_timestamps=True,
    ) as writer:  # fmt: skip
        writer.write_table(rows)
        writer.add_key_value_metadata({"org.apache.spark.version": "4.3.0"})
    (folder / f".{file.name}.crc").write_bytes(b"crc")
    return file


def entry(file: Path) -> str:
    return json.dumps(
        {
            "path": file.as_uri(), "size": file.stat().st_size, "isDir": False,
            "modificationTime": 1, "blockReplication": 1, "blockSize": 33554432, "action": "add",
        },
        separators=(",", ":"),
    )  # fmt: skip


def numbers(batches: int = BATCHES) -> list[int]:
    """The numbers of all rows, sorted."""
    return sorted(
        number
        for hour in HOURS
        for batch in range(batches)
        for number in range((hour * 100 + batch) * ROWS, (hour * 100 + batch + 1) * ROWS)
    )


def by_listing(lake: Path) -> list[int]:
    """The rows for a reader that lists folders, as pandas and DuckDB do."""
    return _read(Path(each, name) for each, _, names in os.walk(lake) for name in names)


def by_log(lake: Path) -> list[int]:
    """The rows for a reader of Spark's log. Raises FileNotFoundError for a file that is gone."""
    names = [path.name for path in (lake / LOG).iterdir() if path.name[0] != "."]
    compact = max(int(name.split(".")[0]) for name in names if name.endswith(".compact"))
    later = sorted(int(name) for name in names if name.isdigit() and int(name) > compact)
    lines = [
        line
        for name in (f"{compact}.compact", *map(str, later))
        for line in (lake / LOG / name).read_text().splitlines()[1:]
    ]
    files = []
    for line in lines:
        each = json.loads(line)
        file = _local(each["path"])
        assert file.stat().st_size == each["size"]
        files.append(file)
    return _read(files)


def files(lake: Path) -> list[Path]:
    return sorted(lake.rglob("*.parquet"))


def _local(url: str) -> Path:
    return Path(url.removeprefix("file://").replace("%25", "%").replace("%3D", "="))


def _read(found: Iterator[Path] | Sequence[Path]) -> list[int]:
    parquet = [path for path in found if path.suffix == ".parquet" and path.name[0] not in "_."]
    return sorted(
        number
        for path in parquet
        for number in pq.ParquetFile(path).read(["offset"])["offset"].to_pylist()
    )
