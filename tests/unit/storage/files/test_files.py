"""Files of staged parts and decisions, temporary names, versions, and the room there is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError, LaterFormatError, StorageError
from penstock.storage.batch import Batch
from penstock.storage.files.decision_files import DecisionFiles
from penstock.storage.files.disk import OsDisk
from penstock.storage.files.disk_space import DiskSpace
from penstock.storage.files.part_files import Found, PartFiles
from penstock.storage.files.temporary import remove_temporaries, temporary_path
from penstock.storage.files.versions import check_version
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.disk import FaultyDisk

FOLDER = "/data/staged"
HEAD_AT = 16


def batches(*bodies: bytes) -> list[Batch]:
    """A batch of one frame for each of these bodies."""
    return [Batch.build(0, 0, 0, 1, len(body), [body]) for body in bodies]


def bodies(made: PartFiles, number: int, count: int) -> list[bytes] | None:
    """What is in a file that should have so many messages."""
    found = made.read(number, count, bytearray(b"of before"))
    return None if found is None else [bytes(batch.frames) for batch in found]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/data")


def part_files(disk: FaultyDisk, *, durably: bool = True) -> PartFiles:
    return PartFiles(disk, FOLDER, durably=durably)


def path(number: int) -> str:
    return f"{FOLDER}/{number:020d}.part"


def test_nothing_is_there_before_the_first(disk: FaultyDisk) -> None:
    assert list(part_files(disk).load()) == []
    assert disk.paths(".part") == []
    assert bodies(part_files(disk), 1, 0) is None


def test_what_was_written_is_found_in_the_order_of_the_numbers(disk: FaultyDisk) -> None:
    made = part_files(disk)
    made.write(12, b"head 12", batches(b"twelve", b"more"))
    made.write(3, b"head 3", batches(b"three"))
    assert list(part_files(disk).load()) == [Found(3, b"head 3"), Found(12, b"head 12")]
    assert bodies(made, 12, 2) == [b"twelve", b"more"]
    assert bodies(made, 3, 1) == [b"three"]
    assert bodies(made, 4, 1) is None


def test_a_file_with_a_damaged_head_is_removed(disk: FaultyDisk) -> None:
    made = part_files(disk)
    for size in range(HEAD_AT + len(b"head")):
        made.write(1, b"head", batches(b"body"))
        disk.cut(path(1), size)
        assert list(made.load()) == []
        assert disk.paths(".part") == []
    made.write(1, b"head", batches(b"body"))
    disk.flip(path(1), 8 * (HEAD_AT + 1))
    assert list(made.load()) == []


def test_a_damaged_body_is_not_given_out(disk: FaultyDisk) -> None:
    made = part_files(disk)
    made.write(1, b"head", batches(b"body"))
    whole = disk.content(path(1))
    disk.flip(path(1), 8 * (len(whole) - 2))
    assert bodies(made, 1, 1) is None
    disk.cut(path(1), 10)
    assert bodies(made, 1, 1) is None


def test_a_file_that_was_cut_short_is_not_given_out(disk: FaultyDisk) -> None:
    made = part_files(disk)
    for size in range(len(b"".join(batch.raw for batch in batches(b"one", b"two")))):
        made.write(1, b"head", batches(b"one", b"two"))
        disk.cut(path(1), HEAD_AT + len(b"head") + size)
        assert bodies(made, 1, 2) is None


def test_a_full_disk_leaves_nothing(disk: FaultyDisk) -> None:
    made = part_files(disk)
    disk.make_directory(FOLDER)
    disk.fill(10)
    with pytest.raises(DiskFullError):
        made.write(1, b"head", batches(b"body"))
    assert list(made.load()) == []


def test_what_was_written_durably_survives_a_power_cut(disk: FaultyDisk) -> None:
    part_files(disk).write(1, b"head", batches(b"body"))
    disk.crash(SystemChance(3))
    assert bodies(part_files(disk), 1, 1) == [b"body"]


def test_removing_goes_on_over_what_cannot_be_removed(disk: FaultyDisk) -> None:
    made = part_files(disk)
    for number in (1, 2):
        made.write(number, b"head", batches(b"body"))
    disk.fail("remove", 1, within="1.part")
    made.remove([1, 2, 3])
    assert [found.number for found in made.load()] == [1]


def test_other_files_in_the_folder_stay(disk: FaultyDisk) -> None:
    part_files(disk).write(1, b"head", batches(b"body"))
    disk.replace_file(f"{FOLDER}/notes.txt", b"mine")
    assert [found.number for found in part_files(disk).load()] == [1]
    assert disk.content(f"{FOLDER}/notes.txt") == b"mine"


# --- The files of decisions: one a writer, whole or told of as damaged ---------------------------


def test_a_writer_has_one_file_that_survives_a_power_cut() -> None:
    disk = FaultyDisk("/data")
    files = DecisionFiles(disk, FOLDER, durably=True)
    assert list(files.load()) == []
    files.write("w", b"one")
    files.write("v/../v", b"other")
    disk.replace_file(f"{FOLDER}/0.part", b"not a decision")
    files.write("w", b"two")
    disk.crash(SystemChance())
    assert sorted(files.load()) == [b"other", b"two"]
    files.remove("w")
    disk.crash(SystemChance())
    assert list(files.load()) == [b"other"]


def test_a_damaged_file_is_reported_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk("/data")
    files = DecisionFiles(disk, FOLDER, durably=True)
    files.write("w", b"content")
    (path,) = disk.paths(".decision")
    data = disk.read_file(path)
    assert data is not None
    disk.replace_file(path, data[:-1] + b"X")
    assert list(files.load()) == []
    assert caplog.messages == [f"{path} is damaged: what a writer has decided is not known"]


# --- Files under a temporary name ----------------------------------------------------------------


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture
def left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of two processes that were killed before they could rename them."""

    def killed(source: str, target: str) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", killed)
        for name in ("a.json", "b.json"):
            with pytest.raises(Killed):
                OsDisk().replace_file(str(tmp_path / name), b"half")
    found = sorted(tmp_path.iterdir())
    assert [path.suffix for path in found] == [".tmp", ".tmp"]
    return found


def test_all_that_was_left_in_a_directory_is_removed(
    tmp_path: Path, left_behind: list[Path]
) -> None:
    (tmp_path / "a.json").write_text("whole")
    (tmp_path / "somebody.tmp").write_text("theirs")
    remove_temporaries(OsDisk(), str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "somebody.tmp"]


def test_those_of_one_file_are_removed(tmp_path: Path, left_behind: list[Path]) -> None:
    remove_temporaries(OsDisk(), str(tmp_path), "b.json")
    assert list(tmp_path.iterdir()) == left_behind[:1]


def test_a_directory_that_is_not_there_has_none(tmp_path: Path) -> None:
    remove_temporaries(OsDisk(), str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_a_disk_that_fails_is_told_and_stops_nobody(
    tmp_path: Path, left_behind: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(OsDisk):
        def remove(self, path: str) -> None:
            raise StorageError("read-only")

    remove_temporaries(Failing(), str(tmp_path))
    assert "cannot remove temporary files - read-only" in caplog.text


def test_a_data_path_and_its_queues_are_cleaned_when_it_is_opened(tmp_path: Path) -> None:
    queue = tmp_path / "topics" / "T@0"
    (queue / "quarantine").mkdir(parents=True)
    directories = (tmp_path, queue, queue / "quarantine")
    paths = [Path(temporary_path(str(each / "x"))) for each in directories]
    for path in paths:
        path.write_text("half")
    store = Store(OsDisk(), str(tmp_path), LogOptions())
    assert not any(path.exists() for path in paths)
    store.close()


# --- A version that is known passes, a later one is refused with what helps ----------------------


def test_versions_up_to_the_newest_pass() -> None:
    for version in (1, 2):
        check_version("/d/queue.json", version, 2)


def test_a_later_one_is_refused() -> None:
    with pytest.raises(LaterFormatError, match=r"^/d/queue.json has format 3, of a later Penstock"):
        check_version("/d/queue.json", 3, 2)


# --- How full a file system is -------------------------------------------------------------------


def test_it_is_that_of_the_path(tmp_path: Path) -> None:
    space = DiskSpace.of(str(tmp_path))
    assert space is not None
    assert space.total == shutil.disk_usage(tmp_path).total
    assert 0 <= space.used_share <= 1


def test_a_path_that_is_not_there() -> None:
    assert DiskSpace.of(os.path.join(os.sep, "no", "such", "path")) is None


@pytest.mark.parametrize(
    ("used", "free", "share"),
    [(0, 100, 0.0), (1, 999, 0.01), (300, 700, 0.3), (301, 700, 0.31), (5, 0, 1.0), (0, 0, 0.0)],
)
def test_the_share_is_rounded_up(used: int, free: int, share: float) -> None:
    assert DiskSpace(used + free, used, free).used_share == share
