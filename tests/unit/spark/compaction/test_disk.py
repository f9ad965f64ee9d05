from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.spark.compaction.disk import FolderDisk


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
