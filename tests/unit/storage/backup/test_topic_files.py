"""A topic's files are seen as of one moment, whatever is deleted or written meanwhile."""

from __future__ import annotations

import shutil
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


@pytest.mark.parametrize(("kind", "doomed"), [(Interrupted, 2), (Listed, 1)])
def test_all_is_read_again_if_retention_deletes_segments_meanwhile(
    tmp_path: Path, kind: type[Interrupted | Listed], doomed: int
) -> None:
    """After the journal was read, or before a segment is opened."""
    folder = healthy(tmp_path)
    left = segments(folder)[:doomed]

    def retention() -> None:
        if left:
            left.pop(0).unlink()
            (folder / JOURNAL_FILE).write_bytes(b"as noted after that %d" % len(left))

    with queue_files(kind(retention), str(folder)) as files:
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
    with queue_files(Interrupted(lambda: shutil.rmtree(folder)), str(folder)) as files:
        assert files is None


def test_segments_that_never_stay_are_an_error(tmp_path: Path) -> None:
    folder = healthy(tmp_path)

    def churn() -> None:
        for each in segments(folder):
            each.rename(each.with_name(f"{int(each.name[:20]) + 1:020d}.log"))

    with pytest.raises(StorageError, match="deleted faster than they can be opened"):
        queue_files(Interrupted(churn), str(folder)).__enter__()


@pytest.mark.parametrize("window", [None, 100], ids=["one window", "smaller than a batch"])
@pytest.mark.parametrize(
    "behind", [b"", bytes(5000), b"PSB", b"\0" * 100 + b"torn", None],
    ids=["nothing", "zeros", "a magic", "torn", "a batch being written"],
)  # fmt: skip
def test_the_newest_segment_ends_with_its_last_whole_batch(
    tmp_path: Path, behind: bytes | None, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = segments(healthy(tmp_path))[-1]
    data = newest.read_bytes()
    newest.write_bytes(data + (data[:100] if behind is None else behind))
    if window is not None:
        monkeypatch.setattr(topic_files, "WINDOW_BYTES", window)
    growing = HeldFile(str(newest), is_newest=True)
    assert growing.end(0) == growing.end(len(data)) == len(data)
    growing.close()
