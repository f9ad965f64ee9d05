"""Small files of a lake become few: which ones, by what steps, and what a crash leaves."""

from __future__ import annotations

import gzip
import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import LockedError, PenstockError, StorageError
from penstock.spark.compaction import Result, compact, finish, held, merging, sink_log
from penstock.spark.compaction.disk import FolderDisk
from penstock.spark.compaction.sink_log import SinkLog, Written
from penstock.spark.compaction.swap import staging_of
from tests.unit.spark.compaction import lake


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return lake.make(tmp_path / "lake")


def test_folders_swap_their_places(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    FolderDisk().exchange(str(tmp_path / "one"), str(tmp_path / "other"))
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["other"]
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["one"]


def test_errors_name_the_path(tmp_path: Path) -> None:
    disk, gone, full = FolderDisk(), str(tmp_path / "gone"), tmp_path / "full"
    (full / "below").mkdir(parents=True)
    with pytest.raises(StorageError, match=f"^{gone}: No such file"):
        disk.exchange(gone, str(full))
    with pytest.raises(StorageError, match=f"^{tmp_path}/name: No such file"):
        disk.link(gone, str(tmp_path / "name"))
    with pytest.raises(StorageError, match=f"^{full}: No such file"):
        disk.alike(str(full), gone)
    with pytest.raises(StorageError, match=f"^{full}: Directory not empty"):
        disk.remove_directory(str(full))


def test_the_newest_compact_file_is_what_is_settled(made: Path) -> None:
    (made / lake.LOG / "9.compact").rename(made / lake.LOG / "19.compact")
    (made / lake.LOG / "9.compact").write_text("v1")
    log = sink_log.settled(made)
    assert log is not None
    assert log.path.name == "19.compact"
    assert len(log.files) == lake.SETTLED * len(lake.HOURS)
    assert all(file.exists() for file in log.files)


def test_a_file_takes_the_place_of_the_first_of_its_old_ones(tmp_path: Path) -> None:
    files = [tmp_path / f"a%b/{number}.parquet" for number in range(4)]
    (tmp_path / "a%b").mkdir()
    for file in files:
        file.touch()
    text = "\n".join(["v1", *map(lake.entry, files)])
    log = SinkLog(Path("9.compact"), text)
    new = Written(tmp_path / "a%b/new.parquet", 5, 6)
    changed = SinkLog(Path("9.compact"), log.replaced({new: files[1:3]}))
    assert changed.files == [files[0], new.path, files[3]]
    assert '/a%25b/new.parquet","size":5,"isDir":false,"modificationTime":6,' in log.replaced(
        {new: files[1:3]}
    )
    # Once more it changes nothing, and neither do files that the log does not have.
    assert changed.replaced({new: files[1:3]}) == log.replaced({new: files[1:3]})
    assert log.replaced({}) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v2\n{}", "version 'v2' of Spark's log is not known"),
        ("", "version '' of"),
        ("v1\n{", "9.compact:2: no entry of Spark's log"),
        ('v1\n{"size":1}', "9.compact:2: no entry"),
    ],
)
def test_a_log_that_is_not_understood_is_refused(text: str, said: str) -> None:
    with pytest.raises(StorageError, match=said):
        SinkLog(Path("9.compact"), text)


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


class Writer(FolderDisk):
    """Somebody writes a file just before a folder is exchanged, whom no lock keeps away."""

    def __init__(self, made: Path) -> None:
        self._made = made
        self._batch = 90

    def exchange(self, one: str, other: str) -> None:
        lake.add(self._made, int(one.rpartition("=")[2]), self._batch)
        super().exchange(one, other)


def test_a_file_that_is_written_meanwhile_stays(made: Path, tmp_path: Path) -> None:
    compact(made, disk=Writer(made))
    found = lake.by_listing(made)
    assert len(found) == len(lake.numbers()) + len(lake.HOURS) * lake.ROWS
    assert set(lake.numbers()) < set(found)
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]


def test_what_is_staged_without_a_plan_is_discarded(made: Path) -> None:
    staging = staging_of(made)
    (staging / "0").mkdir(parents=True)
    (staging / "0" / "compacted.parquet").touch()
    finish(made)
    assert not staging.exists()
    assert lake.by_log(made) == lake.by_listing(made) == lake.numbers()


def test_a_folder_in_use_is_left_alone(made: Path) -> None:
    with held(made), pytest.raises(LockedError, match=f"^{made} is in use: a pipeline"):
        compact(made)
    assert compact(made).folders == len(lake.HOURS)


def test_settled_files_become_one_in_each_folder(made: Path, tmp_path: Path) -> None:
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


def test_rights_and_owners_stay(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_folder_by_other_names(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert compact(Path("../lake")).files_before == 20
    assert lake.by_log(made) == lake.by_listing(made) == lake.numbers()
    assert staging_of(tmp_path / "below/../lake") == tmp_path / ".lake.compaction"
    (tmp_path / "link").symlink_to(made)
    assert staging_of(tmp_path / "link") == tmp_path / ".lake.compaction"


def test_a_folder_that_is_a_mount(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == made)
    beside = sorted(tmp_path.iterdir())
    assert staging_of(made) == made / ".compaction"
    assert compact(made).files_before == 20
    assert lake.by_log(made) == lake.by_listing(made) == lake.numbers()
    assert sorted(tmp_path.iterdir()) == beside
    assert not staging_of(made).exists()


def test_files_are_merged_up_to_a_size(made: Path, tmp_path: Path) -> None:
    sizes = [path.stat().st_size for path in lake.files(made)]
    assert compact(made, file_bytes=4 * max(sizes)).files_after == 2 * 3
    assert lake.by_log(made) == lake.by_listing(made) == lake.numbers()
    # A file of half the size stays as it is.
    assert compact(lake.make(tmp_path / "other"), file_bytes=2 * min(sizes)) == Result()


def test_before_the_first_compact_file_nothing_is_settled(tmp_path: Path) -> None:
    assert not sink_log.exists(tmp_path)
    assert sink_log.settled(tmp_path) is None
    young = lake.make(tmp_path / "young", batches=5)
    assert sink_log.exists(young)
    assert sink_log.settled(young) is None
    assert compact(young) == Result()


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
        ("nothing", "is not a folder"),
        ("n" * 300, "(: File name too long|is not a folder)"),  # the second: Python 3.14
    ):
        with pytest.raises(PenstockError, match=f"^{tmp_path / name} ?{said}"):
            compact(tmp_path / name)


def test_a_file_that_is_missing_is_named_and_nothing_is_changed(made: Path) -> None:
    before = lake.files(made)
    before[0].unlink()
    with pytest.raises(StorageError, match=f"^{before[0]}: No such file"):
        compact(made)
    assert lake.files(made) == before[1:]
