from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import StorageError
from penstock.spark.compaction import merging
from tests.unit.spark.compaction import lake


def merge(files: list[Path], to: Path) -> int:
    kind = merging.kind_of(files[0])
    assert kind is not None
    return merging.merge(kind, files, to)


def test_parquet_keeps_rows_order_types_and_encodings(tmp_path: Path) -> None:
    files = [lake.add(tmp_path, 12, batch) for batch in (3, 1, 2)]
    new = tmp_path / "new.parquet"
    assert merge(files, new) == 3 * lake.ROWS
    wanted = pa.concat_tables([pq.read_table(file) for file in files])
    old, merged = pq.ParquetFile(files[0]), pq.ParquetFile(new)
    assert merged.read().equals(wanted)
    assert merged.schema.equals(old.schema)
    assert merged.schema_arrow.metadata == {b"org.apache.spark.version": b"4.3.0"}
    before, after = old.metadata.row_group(0), merged.metadata.row_group(0)
    for index in range(3):
        one, other = before.column(index), after.column(index)
        assert (one.compression, one.has_dictionary_page, one.is_stats_set) == (
            other.compression, other.has_dictionary_page, other.is_stats_set,
        )  # fmt: skip


def test_small_files_are_no_small_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [lake.add(tmp_path, 12, batch) for batch in range(5)]
    for most, groups in ((1 << 20, 1), (1, 5)):
        monkeypatch.setattr(merging, "_ROW_GROUP_BYTES", most)
        assert merge(files, tmp_path / "new.parquet") == 5 * lake.ROWS
        assert pq.ParquetFile(tmp_path / "new.parquet").num_row_groups == groups


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [math.nan, None, 1.5]),
        (pa.float16(), [np.float16("nan"), None, np.float16(1.5)]),
        (pa.list_(pa.float32()), [[1.5, math.nan], None, []]),
        (pa.struct({"a": pa.float64(), "b": pa.string()}), [{"a": math.nan, "b": "x"}, None, {}]),
        (pa.map_(pa.string(), pa.list_(pa.float64())), [[("k", [math.nan, 1.5])], None, []]),
    ],
)
def test_values_that_are_equal_to_nothing(
    tmp_path: Path, kind: pa.DataType, values: list[Any]
) -> None:
    files = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    for file in files:
        pq.write_table(pa.table({"x": pa.array(values, kind)}), file, compression="none")
    assert merge(files, tmp_path / "new.parquet") == 6


def test_files_without_rows(tmp_path: Path) -> None:
    files = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    for file in files:
        pq.write_table(pa.table({"x": pa.array([], pa.int64())}), file)
    assert merge(files, tmp_path / "new.parquet") == 0


@pytest.mark.parametrize("ending", [".txt.gz", ".json", ".log"])
def test_lines_follow_each_other(tmp_path: Path, ending: str) -> None:
    pack, unpack = (gzip.compress, gzip.decompress) if ending.endswith(".gz") else (bytes, bytes)
    files = [tmp_path / f"{number}{ending}" for number in range(3)]
    for file, text in zip(files, (b"one\ntwo\n", b"", b"\nfour\n"), strict=True):
        file.write_bytes(pack(text))
    new = tmp_path / f"new{ending}"
    assert merge(files, new) == 4
    assert unpack(new.read_bytes()) == b"one\ntwo\n\nfour\n"


@pytest.mark.parametrize("ending", [".txt", ".json.gz"])
def test_lines_that_others_may_not_follow(tmp_path: Path, ending: str) -> None:
    pack = gzip.compress if ending.endswith(".gz") else bytes
    kind = merging.kind_of(Path(f"x{ending}"))
    assert kind is not None

    def alike(name: str, data: bytes) -> object:
        file = tmp_path / f"{name}{ending}"
        file.write_bytes(pack(data))
        return kind.alike(file)

    assert [alike(*each) for each in (("a", b"x\n"), ("b", b""), ("c", b"x\r\n"))] == [None] * 3
    parted = {alike("d", b"x;"), alike("e", b"y;"), alike("f", "x\n".encode("utf-16-le"))}
    marked = {alike("g", b"\xfe\xff" + "x\n".encode("utf-16-be")), alike("h", b"\xff\xfe\n")}
    assert len(parted | marked | {None}) == 6


def test_kinds_that_are_left_alone() -> None:
    for name in ("a.csv", "a.orc", "a.gz", "a.txt.bz2", "plain"):
        assert merging.kind_of(Path(name)) is None
    kinds = [merging.kind_of(Path(name)) for name in ("a.2026.log.gz", "b.log.gz", "b.txt.gz")]
    assert [kind and kind.ending for kind in kinds] == [".log.gz", ".log.gz", ".txt.gz"]


def test_a_damaged_file_is_named_by_its_folder(tmp_path: Path) -> None:
    whole, cut = tmp_path / "1.txt.gz", tmp_path / "2.txt.gz"
    whole.write_bytes(gzip.compress(b"one\n"))
    cut.write_bytes(gzip.compress(b"two\n" * 100)[:-9])
    with pytest.raises(StorageError, match=f"^{tmp_path}: its files cannot be merged: "):
        merge([whole, cut], tmp_path / "new.txt.gz")
    broken = tmp_path / "3.parquet"
    broken.write_bytes(b"PAR1 and no more")
    kind = merging.kind_of(broken)
    assert kind is not None
    with pytest.raises(StorageError, match=f"^{broken} cannot be read: "):
        kind.alike(broken)
    lines = merging.kind_of(cut)
    assert lines is not None
    with pytest.raises(StorageError, match=f"^{cut} cannot be read: "):
        lines.alike(cut)


def test_rows_that_come_back_otherwise_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [lake.add(tmp_path, 12, batch) for batch in (1, 2)]
    write = pq.ParquetWriter.write_table
    monkeypatch.setattr(
        pq.ParquetWriter, "write_table", lambda self, table: write(self, table.slice(1))
    )
    with pytest.raises(StorageError, match="the rows read back are others"):
        merge(files, tmp_path / "new.parquet")
