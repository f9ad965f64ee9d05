from __future__ import annotations

import gzip
import os
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import PenstockError, StorageError
from penstock.spark.compaction import Result, compact
from penstock.spark.compaction.swap import staging_of
from tests.unit.spark.compaction import lake


def test_settled_files_become_one_in_each_folder(tmp_path: Path) -> None:
    made = lake.make(tmp_path / "lake")
    rows = lake.SETTLED * len(lake.HOURS) * lake.ROWS
    assert compact(made) == Result(folders=2, files_before=20, files_after=2, rows=rows)
    assert lake.by_log(made) == lake.by_listing(made) == lake.numbers()
    for hour in lake.HOURS:
        names = [path.name for path in sorted(lake.folder_of(made, hour).iterdir())]
        # Those of the last two batches, which Spark may still list anew, stay with their checksums.
        assert [name[:9] for name in names] == [".part-000"] * 2 + ["compacted"] + ["part-0000"] * 2
    assert not (made / lake.LOG / ".9.compact.crc").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]
    # What was merged is merged no second time.
    assert compact(made) == Result()


def test_rights_and_owners_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake.make(tmp_path / "lake")
    folder = lake.folder_of(made, 12)
    folder.chmod(0o2770)
    for file in folder.iterdir():
        file.chmod(0o640)
    (made / lake.LOG / "9.compact").chmod(0o644)
    owners: list[tuple[str, int, int]] = []

    def chown(path: str, user: int, group: int) -> None:
        owners.append((Path(path).suffix, user, group))
        raise PermissionError  # as it is to all but root

    monkeypatch.setattr(os, "chown", chown)
    compact(made)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o2770
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o640}
    log = made / lake.LOG / "9.compact"
    assert stat.S_IMODE(log.stat().st_mode) == 0o644
    status = folder.stat()
    assert set(owners) == {(end, status.st_uid, status.st_gid) for end in ("", ".parquet", ".tmp")}


def test_the_folder_by_other_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake.make(tmp_path / "lake")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert compact(Path("../lake")).files_before == 20
    assert lake.by_log(made) == lake.by_listing(made) == lake.numbers()
    assert staging_of(tmp_path / "below/../lake") == tmp_path / ".lake.compaction"
    (tmp_path / "link").symlink_to(made)
    assert staging_of(tmp_path / "link") == tmp_path / ".lake.compaction"


def test_a_folder_that_is_a_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake.make(tmp_path / "lake")
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == made)
    beside = sorted(tmp_path.iterdir())
    assert staging_of(made) == made / ".compaction"
    assert compact(made).files_before == 20
    assert lake.by_log(made) == lake.by_listing(made) == lake.numbers()
    assert sorted(tmp_path.iterdir()) == beside
    assert not staging_of(made).exists()


def test_files_are_merged_up_to_a_size(tmp_path: Path) -> None:
    made = lake.make(tmp_path / "lake")
    sizes = [path.stat().st_size for path in lake.files(made)]
    assert compact(made, file_bytes=4 * max(sizes)).files_after == 2 * 3
    assert lake.by_log(made) == lake.by_listing(made) == lake.numbers()
    # A file of half the size stays as it is.
    assert compact(lake.make(tmp_path / "other"), file_bytes=2 * min(sizes)) == Result()


def test_before_the_first_compact_file_nothing_is_settled(tmp_path: Path) -> None:
    made = lake.make(tmp_path / "lake", batches=5)
    assert compact(made) == Result()


def test_a_folder_without_a_log_of_spark(tmp_path: Path) -> None:
    for hour in ("12", "13"):
        (tmp_path / f"hour={hour}").mkdir()
        for number in range(3):
            file = tmp_path / f"hour={hour}" / f"part-{number}.txt.gz"
            file.write_bytes(gzip.compress(b"%d\n" % number))
        (tmp_path / f"hour={hour}" / "notes.csv").write_text("n\n1\n")
    (tmp_path / "hour=12" / "_hidden.txt.gz").touch()
    assert compact(tmp_path) == Result(folders=2, files_before=6, files_after=2, rows=6)
    (merged,) = (tmp_path / "hour=12").glob("compacted-*.txt.gz")
    assert gzip.decompress(merged.read_bytes()) == b"0\n1\n2\n"
    assert {path.name for path in (tmp_path / "hour=12").iterdir()} == {
        merged.name, "notes.csv", "_hidden.txt.gz",
    }  # fmt: skip


def test_files_of_another_schema_stay_apart(tmp_path: Path) -> None:
    folder = tmp_path / "lake/hour=1"
    folder.mkdir(parents=True)
    for number, kind in enumerate([pa.int32(), pa.int32(), pa.string(), pa.string(), pa.int32()]):
        table = pa.table({"n": pa.array([None], kind)})
        pq.write_table(table, folder / f"{number}.parquet")
    assert compact(tmp_path / "lake") == Result(folders=1, files_before=4, files_after=2, rows=4)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"use_deprecated_int96_timestamps": True}, {}),
        ({}, {"org.apache.spark.sql.parquet.row.metadata": "timestamp_ntz"}),
        ({}, {"org.apache.spark.legacyDateTime": ""}),
    ],
)
def test_files_that_spark_reads_otherwise_stay_apart(
    tmp_path: Path, written: dict[str, bool], told: dict[str, str]
) -> None:
    folder = tmp_path / "hour=1"
    folder.mkdir()
    rows = lake.table(0, 3)
    for name, options, more in (("a", {}, {}), ("b", {}, {}), ("c", written, told)):
        with pq.ParquetWriter(folder / f"{name}.parquet", rows.schema, **options) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"of": name, **more})
    assert compact(tmp_path).files_before == 2
    assert sorted(each.name for each in folder.iterdir())[0] == "c.parquet"


def test_folders_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    for name, file in (("delta", "_delta_log/0.json"), ("iceberg", "metadata/v1.metadata.json")):
        (tmp_path / name / file).parent.mkdir(parents=True)
        (tmp_path / name / file).touch()
    for name, said in (
        ("delta", "is a Delta table: compact it by `OPTIMIZE`"),
        ("iceberg", "is an Iceberg table"),
        ("nothing", "is no folder"),
    ):
        with pytest.raises(PenstockError, match=f"^{tmp_path / name} {said}"):
            compact(tmp_path / name)


def test_a_file_that_is_missing_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    made = lake.make(tmp_path / "lake")
    before = lake.files(made)
    before[0].unlink()
    with pytest.raises(StorageError, match=f"^{before[0]}: No such file"):
        compact(made)
    assert lake.files(made) == before[1:]
