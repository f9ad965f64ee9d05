"""All files are moved or none, wherever the process or the power ends."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import DiskFullError, StorageError
from penstock.nsq.takeover import moves
from penstock.nsq.takeover.moves import STAGING, Move
from penstock.testing.disk import FaultyDisk

from .killer import Killed, KillerDisk

DATA = "/data"
MOVES = [
    Move(f"{STAGING}/a/one", "topics/a/one", 3),
    Move(f"{STAGING}/a/two", "topics/a/two", 4),
    Move("old", "done/old", 5),
]


def prepared(disk: FaultyDisk) -> None:
    disk.replace_file(f"{DATA}/old", b"olden")
    disk.make_directory(f"{DATA}/topics/a")
    disk.replace_file(f"{DATA}/topics/a/two", b"previous")
    moves.begin(disk, DATA)
    disk.make_directory(f"{DATA}/{STAGING}/a")
    disk.replace_file(f"{DATA}/{STAGING}/a/one", b"one")
    disk.replace_file(f"{DATA}/{STAGING}/a/two", b"four")


def contents(disk: FaultyDisk) -> dict[str, bytes]:
    return {path.removeprefix(DATA + "/"): disk.content(path) for path in disk.paths()}


NOT_MOVED = {"old": b"olden", "topics/a/two": b"previous"}
MOVED = {"done/old": b"olden", "topics/a/one": b"one", "topics/a/two": b"four"}


def test_files_are_moved_and_the_staging_directory_goes() -> None:
    disk = FaultyDisk(DATA)
    prepared(disk)
    moves.commit(disk, DATA, MOVES)
    assert contents(disk) == MOVED
    assert disk.list(DATA) == ["done", "topics"]
    assert not moves.resume(disk, DATA)


def test_what_was_not_committed_is_dropped() -> None:
    disk = FaultyDisk(DATA)
    prepared(disk)
    assert not moves.resume(disk, DATA)
    assert contents(disk) == NOT_MOVED


@pytest.mark.parametrize("seed", range(-1, 6))
def test_a_crash_anywhere_leaves_all_or_nothing(seed: int) -> None:
    outcomes = set()
    for step in range(100):
        disk = KillerDisk(DATA)
        prepared(disk)
        disk.kill_at(step)
        try:
            moves.commit(disk, DATA, MOVES)
        except Killed:
            disk.crash("written" if seed < 0 else SystemChance(seed * 1000 + step))
        else:
            break
        resumed = moves.resume(disk, DATA)
        assert contents(disk) in ([MOVED] if resumed else [MOVED, NOT_MOVED])
        assert STAGING not in disk.list(DATA)
        outcomes.add(contents(disk) == MOVED)
    assert step > 10
    assert outcomes == {True, False}


def test_a_crash_while_resuming_is_resumed() -> None:
    for step in range(100):
        disk = KillerDisk(DATA)
        prepared(disk)
        disk.kill_at(4)  # behind the plan, before the first move
        with pytest.raises(Killed):
            moves.commit(disk, DATA, MOVES)
        disk.crash("written")
        disk.kill_at(step)
        try:
            assert moves.resume(disk, DATA)
            break
        except Killed:
            disk.crash(SystemChance(step))
        moves.resume(disk, DATA)
        assert contents(disk) == MOVED
    assert step > 10


def test_a_file_that_has_changed_meanwhile_stays(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk(DATA)
    prepared(disk)
    disk.replace_file(f"{DATA}/old", b"another")
    moves.commit(disk, DATA, MOVES)
    left = {name: data for name, data in MOVED.items() if name != "done/old"}
    assert contents(disk) == {**left, "old": b"another"}
    assert "/data/old has changed since it was imported and stays" in caplog.text


def test_a_full_disk_moves_nothing() -> None:
    disk = FaultyDisk(DATA)
    prepared(disk)
    disk.fill()
    with pytest.raises(DiskFullError):
        moves.commit(disk, DATA, MOVES)
    assert contents(disk) == NOT_MOVED


@pytest.mark.parametrize("plan", [b"{", b'{"moves":[["\xff","",1]]}', b'{"x":' + b"[" * 5000])
def test_a_damaged_plan_is_told(plan: bytes) -> None:
    disk = FaultyDisk(DATA)
    prepared(disk)
    disk.replace_file(f"{DATA}/{STAGING}/moves.json", plan)
    with pytest.raises(StorageError, match=r"moves\.json is damaged"):
        moves.resume(disk, DATA)
