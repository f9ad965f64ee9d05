"""What of the archive needs no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.errors import SourceError
from penstock.spark.pipelines.archive import group_name, require_own


def test_the_group_belongs_to_topic_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert group_name("t", "checkpoint") == group_name("t", str(tmp_path / "checkpoint"))
    names = {group_name("t", "a"), group_name("t", "b"), group_name("u", "a")}
    assert len(names | {group_name("t", "s3://bucket/a")}) == 4


def test_an_archive_of_another_checkpoint_is_refused() -> None:
    for written, planned in (
        (["0"], []),
        (["9.compact", "10", ".10.crc"], ["8", "9"]),
    ):
        with pytest.raises(SourceError) as refused:
            require_own("lake", written, planned)
        assert str(refused.value) == (
            "lake already holds an archive made with another checkpoint; "
            "give that checkpoint or an empty folder"
        )


def test_its_own_checkpoint_is_let_through_wherever_the_query_was_killed() -> None:
    require_own("lake", [], [])
    require_own("lake", [], ["0"])
    require_own("lake", ["0"], ["0"])
    require_own("lake", ["9.compact", "10", ".11.tmp"], ["10", "11", ".12.crc"])
