"""An archive's folder before its query starts, where no Spark is needed to look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from penstock.spark.archive.store import Store
from penstock.spark.archive.target import Target
from penstock.spark.errors import SourceError
from penstock.spark.pipelines import adoption, own
from tests.unit.spark.compaction import lake as lakes


def test_an_archive_of_spark_s_writer_on_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    here = Store(fs.LocalFileSystem(), str(tmp_path))
    monkeypatch.setattr(Store, "open", lambda _: here)
    # Only pyarrow is asked: Spark may have no jar of that file system.
    no_spark: Any = None
    with pytest.raises(SourceError, match=r"s3a://b/lake .* carried over only on this machine"):
        adoption.prepare(no_spark, Target("s3a://b/lake", "parquet", (), ()), "checkpoint")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of Spark's writer, whose checkpoint has planned and done all."""

    def names(_: Any, folder: str, log: str) -> list[str]:
        path = Path(folder, log)
        return os.listdir(path) if path.is_dir() else []

    monkeypatch.setattr(own, "_files", names)
    root = lakes.make(tmp_path / "lake")
    for log in ("offsets", "commits"):
        (tmp_path / "checkpoint" / log).mkdir(parents=True)
        (tmp_path / "checkpoint" / log / str(lakes.BATCHES - 1)).touch()
    return root


def start(lake: Path) -> None:
    no_spark: Any = None
    target = Target(str(lake), "parquet", (), ())
    adoption.prepare(no_spark, target, str(lake.parent / "checkpoint"))


def files(lake: Path) -> set[str]:
    return {str(file.relative_to(lake)) for file in lake.rglob("*.parquet")}


def test_a_moved_archive_of_spark_s_writer_keeps_what_its_log_lists(lake: Path) -> None:
    before = files(lake)
    moved = lake.rename(lake.with_name("moved"))
    start(moved)
    assert files(moved) == before
    assert (moved / adoption.SET_ASIDE).is_dir()


def test_files_that_a_killed_driver_s_tasks_still_wrote_go_at_the_next_start(lake: Path) -> None:
    lakes.add(lake, lakes.HOURS[0], 98)
    start(lake)
    before = files(lake)
    late = lakes.add(lake, lakes.HOURS[0], 99)
    compacted = late.with_name("compacted-1.zstd.parquet")
    compacted.write_bytes(late.read_bytes())
    start(lake)
    assert files(lake) == before | {str(compacted.relative_to(lake))}
    assert len(before) == lakes.BATCHES * len(lakes.HOURS)
