"""The folder of staged files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.core.errors import LockedError, StorageError
from penstock.spark.channel.folder import Folder, StagedFile, file_path, missing, read
from penstock.spark.errors import LostError, SourceError
from penstock.storage.files.disk import OsDisk


def batch(*bodies: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], ["body"])


def opened(path: Path) -> Folder:
    folder = Folder(str(path))
    folder.open("t", "c")
    return folder


def test_files_are_numbered_and_found_again_by_the_next_process(tmp_path: Path) -> None:
    first = opened(tmp_path / "deep" / "folder")
    assert [first.write(batch(b"a", b"b"), 0), first.write(batch(b"c"), 0)] == [0, 1]
    first.close()
    second = opened(tmp_path / "deep" / "folder")
    assert (second.id, second.files, second.nbytes) == (first.id, first.files, first.nbytes)
    assert [file.rows for file in second.files.values()] == [2, 1]
    (found,) = read(second.path, 0)
    assert found.column("body").to_pylist() == [b"a", b"b"]


def test_a_number_is_never_below_what_the_checkpoint_has(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    assert folder.write(batch(b"a"), 17) == 17
    assert folder.write(batch(b"a"), 17) == 18


def test_what_is_committed_is_removed(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    for _ in range(3):
        folder.write(batch(b"a"), 0)
    folder.remove_below(2)
    assert list(folder.files) == [2]
    assert folder.nbytes == folder.files[2].nbytes
    assert [path.name for path in tmp_path.glob("*.arrow")] == ["000000000002.arrow"]


def test_a_number_is_given_once_even_when_all_before_it_are_removed(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    assert folder.write(batch(b"a"), 0) == 0
    folder.remove_below(1)
    assert folder.write(batch(b"a"), 0) == 1


def test_two_processes_never_stage_in_one_folder(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(LockedError):
        opened(tmp_path)
    first.close()
    opened(tmp_path)


def test_a_folder_belongs_to_one_channel(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(SourceError) as refused:
        Folder(str(tmp_path)).open("t", "other")
    assert str(refused.value) == (
        f"stagingLocation {tmp_path} has messages of channel c of topic t: give each query a "
        "folder that no other has"
    )


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / "000000000004.arrow.0123abcd.tmp").write_bytes(b"half")
    assert opened(tmp_path).files == {}
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("content", [b"", b"{}", json.dumps([1]).encode()])
def test_an_identity_that_is_damaged_is_no_new_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "staging.json").write_bytes(content)
    with pytest.raises(SourceError, match=r"staging\.json is damaged"):
        opened(tmp_path)


def test_a_place_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match="stagingLocation cannot be used: "):
        opened(tmp_path / "file")


def test_a_file_that_is_damaged_is_kept_and_named(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.write(batch(b"a"), 0)
    path = Path(file_path(folder.path, 0))
    path.write_bytes(path.read_bytes()[:40])
    folder.close()
    assert opened(tmp_path).files == {0: StagedFile(0, 40)}
    with pytest.raises(LostError, match=f"staged file {path} cannot be read: "):
        read(folder.path, 0)


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(LostError) as lost:
        read(str(tmp_path), 3)
    assert str(lost.value) == missing(str(tmp_path), [3])
    assert f"{tmp_path}/000000000003.arrow and 2 more is missing" in missing(
        str(tmp_path), [3, 4, 5]
    )


def test_a_disk_that_takes_no_more_leaves_no_file(tmp_path: Path) -> None:
    class Full(OsDisk):
        def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
            assert sync, "a message is finished when its file is on stable storage"
            if path.endswith(".arrow"):
                raise StorageError(f"{path}: no space left on device")
            super().replace_file(path, *data, sync=sync)

    folder = Folder(str(tmp_path), Full())
    folder.open("t", "c")
    with pytest.raises(StorageError, match="no space left"):
        folder.write(batch(b"a"), 0)
    assert folder.files == {}
