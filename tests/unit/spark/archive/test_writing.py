"""A split's messages into files: folders by the hour, names by the range, whole or not there."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from penstock.spark.archive import writing
from penstock.spark.archive.names import FileName
from penstock.spark.archive.store import Store, serves
from penstock.spark.archive.target import Target, zone_of
from penstock.spark.archive.writing import write_split
from penstock.spark.errors import OptionError, SinkError
from penstock.spark.offsets import Place
from penstock.spark.planning import Split
from penstock.spark.read.decode import arrow_schema

LOG = "0a61b2c3d4e5f607"
COLUMNS = ("timestamp", "node", "queue", "offset", "id", "body")
HOURLY = ("topic", "date", "hour")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def split(first: int, last: int, topic: str = "t") -> Split:
    return Split(Place(topic, "h:1", 0), "h:1", first, last, 100.0, LOG)


def target(root: Path, **given: Any) -> Target:
    return Target(
        **{"root": str(root), "format": "parquet", "columns": COLUMNS, "folders": HOURLY} | given
    )


def messages(first: int, minutes: Sequence[int], read: Sequence[str]) -> pa.RecordBatch:
    """A message for each of these minutes after noon."""
    rows = [
        {
            "topic": "t", "timestamp": datetime.fromtimestamp(NOON.timestamp() + 60 * minute, UTC),
            "node": "h:1", "queue": 0, "offset": first + number, "id": f"{first + number:016x}",
            "body": b"body %d" % (first + number), "attempts": 1,
        }
        for number, minute in enumerate(minutes)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, pa.schema(arrow_schema(list(read))))


def write(root: Path, *batches: Sequence[int], **given: Any) -> list[writing.Written]:
    """Files of batches of messages at these minutes, the first with offset 10."""
    to = target(root, **given)

    def read() -> Iterator[pa.RecordBatch]:
        at = 10
        for minutes in batches:
            yield messages(at, minutes, to.read)
            at += len(minutes)

    whole = split(10, 10 + sum(map(len, batches)))
    return list(write_split(whole, read(), to, Store.open(to.root)))


def ranges(written: Sequence[writing.Written]) -> list[tuple[str, int, int, int]]:
    return [
        (Path(each.path).parent.name, each.name.first, each.name.last, each.rows)
        for each in written
    ]


def offsets(root: Path) -> list[int]:
    return ds.dataset(str(root), partitioning="hive").to_table().column("offset").to_pylist()


def test_a_file_for_each_folder_in_turn_named_for_what_it_holds(tmp_path: Path) -> None:
    found = write(tmp_path, [0, 10, 59], [59, 60, 61], [62])
    assert ranges(found) == [("hour=12", 10, 14, 4), ("hour=13", 14, 17, 3)]
    folder = tmp_path / "topic=t" / "date=2026-01-01" / "hour=12"
    assert [FileName.read(path.name) for path in folder.iterdir()] == [
        found[0].name._replace(node="h_1")
    ]
    assert pq.ParquetFile(found[0].path).schema_arrow.names == [*COLUMNS]
    assert offsets(tmp_path) == list(range(10, 17))


def test_a_clock_that_was_set_back_ends_a_file_too(tmp_path: Path) -> None:
    assert ranges(write(tmp_path, [59, 60, 59, 60])) == [
        ("hour=12", 10, 11, 1), ("hour=13", 11, 12, 1),
        ("hour=12", 12, 13, 1), ("hour=13", 13, 14, 1),
    ]  # fmt: skip
    assert sorted(offsets(tmp_path)) == [10, 11, 12, 13]


def test_what_was_damaged_is_in_the_range_of_the_file_before_it(tmp_path: Path) -> None:
    to = target(tmp_path, folders=())
    batches = [messages(10, [0, 0], to.read), messages(15, [0], to.read)]
    (only,) = write_split(split(10, 20), batches, to, Store.open(to.root))
    assert (only.name.first, only.name.last, only.rows) == (10, 20, 3)
    assert not list(write_split(split(20, 30), [], to, Store.open(to.root)))


def test_folders_by_place_in_a_zone_and_without_any(tmp_path: Path) -> None:
    found = write(tmp_path / "a", [0], folders=("node", "date", "hour"), zone="America/St_Johns")
    assert Path(found[0].path).relative_to(tmp_path / "a").parts[:-1] == (
        "node=h%3A1", "date=2026-01-01", "hour=8"
    )  # fmt: skip
    assert ranges(write(tmp_path / "b", [0, 200], folders=())) == [("b", 10, 12, 2)]
    with pytest.raises(
        OptionError, match=r"timeZone=\+02:00: folders of date and hour need a zone"
    ):
        zone_of("+02:00")


def test_the_same_again_takes_the_place_of_what_is_there(tmp_path: Path) -> None:
    for _ in range(2):
        write(tmp_path, [0, 60])
        assert offsets(tmp_path) == [10, 11]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2


def test_nobody_sees_a_file_before_it_is_whole_and_the_next_start_removes_it(
    tmp_path: Path,
) -> None:
    to = target(tmp_path)

    def ends() -> Iterator[pa.RecordBatch]:
        yield messages(10, [0], to.read)
        assert not list(tmp_path.rglob("*.parquet"))
        assert [path.name[:3] for path in tmp_path.rglob("*") if path.is_file()] == [".t@"]
        assert not ds.dataset(str(tmp_path), partitioning="hive").files
        raise SinkError("the end")

    with pytest.raises(SinkError, match="the end"):
        list(write_split(split(10, 12), ends(), to, Store.open(to.root)))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    store = Store.open(str(tmp_path))
    for topic in ("t", "other"):
        store.create("", topic)
    (tmp_path / "part-1.parquet").touch()
    (tmp_path / "_SUCCESS").touch()
    assert store.files(lambda topic: topic == "t") == ([], [f"{tmp_path}/part-1.parquet"])
    assert [path.name[:7] for path in tmp_path.glob(".*")] == [".other@"]


@pytest.mark.parametrize(("compression", "ending"), [("gzip", ".txt.gz"), ("none", ".txt")])
def test_lines(tmp_path: Path, compression: str, ending: str) -> None:
    given = {"format": "text", "columns": ("body",), "compression": compression}
    (only,) = write(tmp_path, [0, 0], [0], **given)
    assert only.path.endswith(ending)
    data = Path(only.path).read_bytes()
    data = gzip.decompress(data) if compression == "gzip" else data
    assert data == b"body 10\nbody 11\nbody 12\n"


def test_row_groups_are_not_as_small_as_what_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_BYTES", 200)
    (only,) = write(tmp_path, *[[0]] * 20, compression="zstd", level=3)
    opened = pq.ParquetFile(only.path)
    assert 1 < opened.num_row_groups < 10
    assert opened.metadata.row_group(0).column(0).compression == "ZSTD"


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "topic=t").touch()
    with pytest.raises(
        SinkError, match=r"topic=t/date=2026-01-01/hour=12/\.t@\w+\.unfinished cannot"
    ):
        write(tmp_path, [0])
    with pytest.raises(
        SinkError, match=r'gopher://x cannot be opened by pyarrow.*Without writer = "'
    ):
        Store.open("gopher://x")
    store = Store.open(str(tmp_path))
    assert (store.has("topic=t"), store.has("topic=u")) == (True, False)
    with pytest.raises(SinkError, match="cannot be read"):
        store.has("x" * 300)
    assert [serves(root) for root in ("/a", "s3a://b/c", "hdfs://h/x", "dbfs:/x")] == [
        True, True, True, False
    ]  # fmt: skip


def test_a_target_comes_back_from_its_option(tmp_path: Path) -> None:
    whole = target(tmp_path, compression="zstd", level=1, zone="Europe/Berlin")
    assert Target.load(whole.dump()) == whole
    assert whole.read == COLUMNS
    assert target(tmp_path, columns=("body",)).read == ("body", "offset", "timestamp")
    assert target(tmp_path, columns=("body",), folders=("topic",)).read == ("body", "offset")
