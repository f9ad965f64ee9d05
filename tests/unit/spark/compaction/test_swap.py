from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import LockedError
from penstock.spark.compaction import compact, finish, held
from penstock.spark.compaction.disk import FolderDisk
from penstock.spark.compaction.swap import staging_of
from tests.unit.spark.compaction import lake


class Writer(FolderDisk):
    """Somebody writes a file just before a folder is exchanged, whom no lock keeps away."""

    def __init__(self, made: Path) -> None:
        self._made = made
        self._batch = 90

    def exchange(self, one: str, other: str) -> None:
        lake.add(self._made, int(one.rpartition("=")[2]), self._batch)
        super().exchange(one, other)


def test_a_file_that_is_written_meanwhile_stays(tmp_path: Path) -> None:
    made = lake.make(tmp_path / "lake")
    compact(made, disk=Writer(made))
    found = lake.by_listing(made)
    assert len(found) == len(lake.numbers()) + len(lake.HOURS) * lake.ROWS
    assert set(lake.numbers()) < set(found)
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]


def test_what_is_staged_without_a_plan_is_discarded(tmp_path: Path) -> None:
    made = lake.make(tmp_path / "lake")
    staging = staging_of(made)
    (staging / "0").mkdir(parents=True)
    (staging / "0" / "compacted.parquet").touch()
    finish(made)
    assert not staging.exists()
    assert lake.by_log(made) == lake.by_listing(made) == lake.numbers()


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    made = lake.make(tmp_path / "lake")
    with held(made), pytest.raises(LockedError, match=f"^{made} is in use: a pipeline"):
        compact(made)
    assert compact(made).folders == len(lake.HOURS)
