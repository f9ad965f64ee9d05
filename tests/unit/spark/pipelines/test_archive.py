"""What of the archive needs no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.pipelines.archive import group_name


def test_the_group_belongs_to_topic_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert group_name("t", "checkpoint") == group_name("t", str(tmp_path / "checkpoint"))
    names = {group_name("t", "a"), group_name("t", "b"), group_name("u", "a")}
    assert len(names | {group_name("t", "s3://bucket/a")}) == 4
