"""A topic's files are seen as of one moment, whatever is deleted or written meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core.errors import StorageError, TooManyFilesError
from penstock.storage.backup import topic_files
from penstock.storage.backup.topic_files import HeldFile, queue_files
from penstock.storage.files.disk import OsDisk
from penstock.storage.identity import IDENTITY_FILE
from penstock.storage.journal import JOURNAL_FILE
from tests.unit.cli.doctor.patients import healthy, segments


class Interrupted(OsDisk):
    """A disk on which something happens right after the cursor journal was read."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens

    def read_file(self, path: str) -> bytes | None:
        data = super().read_file(path)
        if path.endswith(JOURNAL_FILE):
            self._happens()
        return data


def test_all_is_read_again_if_retention_deletes_segments_meanwhile(tmp_path: Path) -> None:
    folder = healthy(tmp_path)
    doomed = segments(folder)[:2]

    def retention() -> None:
        if doomed:
            doomed.pop(0).unlink()
            (folder / JOURNAL_FILE).write_bytes(b"as noted after that %d" % len(doomed))

    with queue_files(Interrupted(retention), str(folder)) as files:
        assert files is not None
        assert files.small[JOURNAL_FILE] == b"as noted after that 0"
        names = [name for name in files.growing if name.endswith(".log")]
    assert names == [each.name for each in segments(folder)]


class MadeAgain(OsDisk):
    """A disk on which a topic is another one right after its identity was read first."""

    def __init__(self) -> None:
        self._is_another = False

    def read_file(self, path: str) -> bytes | None:
        data = super().read_file(path)
        if path.endswith(IDENTITY_FILE) and not self._is_another:
            self._is_another = True
            Path(path).write_bytes((data or b"") + b" ")
        return data


def test_all_is_read_again_if_another_topic_is_made_meanwhile(tmp_path: Path) -> None:
    with queue_files(MadeAgain(), str(healthy(tmp_path))) as files:
        assert files is not None
        assert files.small[IDENTITY_FILE].endswith(b" ")


class Listed(OsDisk):
    """A disk on which something happens once, right after the segments to be opened are listed."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens
        self._left = 3  # listings: for the oldest segment, for the small files, for the segments

    def list(self, directory: str) -> list[str]:
        names = super().list(directory)
        self._left -= any(name.endswith(".log") for name in names)
        if self._left == 0:
            self._happens()
        return names


def test_all_is_read_again_if_a_segment_is_gone_before_it_is_opened(tmp_path: Path) -> None:
    folder = healthy(tmp_path)
    before = segments(folder)

    def retention() -> None:
        if segments(folder) == before:
            before[0].unlink()
            (folder / JOURNAL_FILE).write_bytes(b"as noted after that")

    with queue_files(Listed(retention), str(folder)) as files:
        assert files is not None
        assert files.small[JOURNAL_FILE] == b"as noted after that"
        assert [name for name in files.growing if name.endswith(".log")] == [
            each.name for each in before[1:]
        ]


def test_too_many_open_files_are_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = healthy(tmp_path)
    opened: list[HeldFile] = []
    closed: list[HeldFile] = []

    class Limited(HeldFile):
        def __init__(self, path: str, *, is_newest: bool = False) -> None:
            if len(opened) == 2:
                raise TooManyFilesError(f"{path}: Too many open files")
            super().__init__(path, is_newest=is_newest)
            opened.append(self)

        def close(self) -> None:
            super().close()
            closed.append(self)

    monkeypatch.setattr(topic_files, "HeldFile", Limited)
    with pytest.raises(TooManyFilesError, match="Too many open files"):
        queue_files(OsDisk(), str(folder)).__enter__()
    assert closed == opened[::-1] != []


def test_what_is_deleted_after_the_look_stays_readable(tmp_path: Path) -> None:
    folder = healthy(tmp_path)
    contents = {each.name: each.read_bytes() for each in segments(folder)}
    with queue_files(OsDisk(), str(folder)) as files:
        assert files is not None
        for each in segments(folder):
            each.unlink()
        for name, file in files.growing.items():
            assert file.read(0, file.end(0)) == contents[name]


def test_a_queue_that_is_deleted_meanwhile_is_none(tmp_path: Path) -> None:
    folder = healthy(tmp_path)
    disk = Interrupted(lambda: _delete(folder))
    with queue_files(disk, str(folder)) as files:
        assert files is None


def _delete(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()


def test_segments_that_never_stay_are_an_error(tmp_path: Path) -> None:
    folder = healthy(tmp_path)
    newest = segments(folder)[-1]

    def churn() -> None:
        for each in segments(folder):
            each.rename(each.with_name(f"{int(each.name[:20]) + 1:020d}.log"))

    assert newest.exists()
    with pytest.raises(StorageError, match="deleted faster than they can be opened"):
        queue_files(Interrupted(churn), str(folder)).__enter__()


@pytest.mark.parametrize("behind", [b"", bytes(5000), b"PSB", b"\0" * 100 + b"torn"])
def test_the_newest_segment_ends_with_its_last_whole_batch(tmp_path: Path, behind: bytes) -> None:
    newest = segments(healthy(tmp_path))[-1]
    size = newest.stat().st_size
    with newest.open("ab") as file:
        file.write(behind)
    growing = HeldFile(str(newest), is_newest=True)
    assert growing.end(0) == size
    assert growing.end(size) == size
    growing.close()


def test_a_batch_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    newest = segments(healthy(tmp_path))[-1]
    data = newest.read_bytes()
    newest.write_bytes(data + data[:100])
    growing = HeldFile(str(newest), is_newest=True)
    assert growing.end(0) == len(data)
    growing.close()


def test_batches_larger_than_a_window_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = segments(healthy(tmp_path))[-1]
    size = newest.stat().st_size
    monkeypatch.setattr("penstock.storage.backup.topic_files.WINDOW_BYTES", 100)
    growing = HeldFile(str(newest), is_newest=True)
    assert growing.end(0) == size
    growing.close()
