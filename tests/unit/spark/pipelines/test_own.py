"""Possessions of one pipeline: its group, its sink's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import LockedError
from penstock.spark.compaction import compact
from penstock.spark.compaction.swap import staging_of
from penstock.spark.errors import SourceError
from penstock.spark.pipelines.own import alone, group_name, local_folder, require_own
from penstock.spark.pipelines.spec import Sink
from tests.unit.spark.compaction import lake


def test_the_group_belongs_to_topic_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = str(tmp_path / "checkpoint")
    assert group_name("t", "checkpoint", "n") == group_name("t", whole, "n")
    names = {group_name("t", "a", "n"), group_name("t", "b", "n"), group_name("u", "a", "n")}
    assert len(names | {group_name("t", "s3://bucket/a", "n"), group_name("t", "a", "m")}) == 5


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("run/lake", "run/lake"),
        ("/lake", "/lake"),
        ("/lake/at=12:30", "/lake/at=12:30"),
        ("file:/lake", "/lake"),
        ("file:///lake", "/lake"),
        ("file://host/lake", None),
        ("s3a://bucket/lake", None),
        ("dbfs:/mnt/lake", None),
        ("hdfs:/lake", None),
    ],
)
def test_a_folder_of_this_machine(place: str, folder: str | None) -> None:
    assert local_folder(place) == (None if folder is None else Path(folder))


def test_an_archive_of_another_checkpoint_is_refused() -> None:
    for written, planned in (
        (["0"], []),
        (["9.compact", "10", ".10.crc"], ["8", "9"]),
    ):
        with pytest.raises(SourceError) as refused:
            require_own("lake", written, planned)
        assert str(refused.value) == (
            "lake already holds rows that were written with another checkpoint; "
            "give that checkpoint or an empty folder"
        )


def test_its_own_checkpoint_is_let_through_wherever_the_query_was_killed() -> None:
    require_own("lake", [], [])
    require_own("lake", [], ["0"])
    require_own("lake", ["0"], ["0"])
    require_own("lake", ["9.compact", "10", ".11.tmp"], ["10", "11", ".12.crc"])


def test_one_pipeline_or_compaction_at_a_time_has_the_files(tmp_path: Path) -> None:
    made = lake.make(tmp_path / "lake")
    sink = Sink("parquet", {"path": f"file://{made}"})
    with alone(sink), pytest.raises(LockedError, match="is in use"):
        compact(made)
    staging_of(made).mkdir()
    with alone(sink):  # what a compaction that was killed has left is cleared away first
        assert not staging_of(made).exists()


def test_sinks_without_a_folder_here_need_no_lock(tmp_path: Path) -> None:
    for sink in (
        Sink("nsq", {"topic": "t"}),
        Sink("parquet", {"path": "s3a://bucket/lake"}),
        Sink("delta", {"path": str(tmp_path / "table")}),
    ):
        with alone(sink):
            assert not (tmp_path / "table").exists()
