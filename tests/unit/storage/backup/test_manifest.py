"""Manifests are read back as they were written, and refused in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.storage.backup import manifest as manifests
from penstock.storage.backup.manifest import Entry, Manifest
from penstock.storage.files.disk import OsDisk

DISK = OsDisk()


def test_what_is_saved_is_loaded_until_it_is_removed(tmp_path: Path) -> None:
    made = Manifest("/data", 7, [Entry("a", "b", 3), Entry("c", "d", 4, is_growing=True)])
    folder = str(tmp_path)
    for moment in ("2", "1"):
        manifests.save(DISK, folder, moment, made)
    assert manifests.moments(DISK, folder) == ["1", "2"]
    assert manifests.load(DISK, folder, "2") == made
    assert made.nbytes == 7
    manifests.remove(DISK, folder, "1")
    assert manifests.moments(DISK, folder) == ["2"]
    with pytest.raises(StorageError, match="has no backup 1"):
        manifests.load(DISK, folder, "1")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('{"data_path":"/data",', "is damaged: "),
        ('{"data_path":"/data","wall_ns":1,"version":2}', "has format 2, of a later Penstock"),
    ],
)
def test_a_manifest_that_cannot_be_used(tmp_path: Path, data: str, said: str) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "1.json").write_text(data)
    with pytest.raises(StorageError, match=said):
        manifests.load(DISK, str(tmp_path), "1")
