"""Possessions of one pipeline: its group, its sink's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.errors import SourceError
from penstock.spark.pipelines.own import group_name, require_own


def test_the_group_belongs_to_topic_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = str(tmp_path / "checkpoint")
    assert group_name("t", "checkpoint", "n") == group_name("t", whole, "n")
    names = {group_name("t", "a", "n"), group_name("t", "b", "n"), group_name("u", "a", "n")}
    assert len(names | {group_name("t", "s3://bucket/a", "n"), group_name("t", "a", "m")}) == 5


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
