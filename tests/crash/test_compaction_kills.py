"""A compaction that is killed by SIGKILL before each of its steps on the disk, and run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from penstock.spark.compaction import compact, finish
from penstock.spark.compaction.disk import FolderDisk
from penstock.spark.compaction.swap import staging_of
from tests.unit.spark.compaction import lake

STEPS = (
    "make_directory", "link", "open", "sync_directory", "replace_file", "exchange", "remove",
    "rename", "remove_directory", "remove_tree",
)  # fmt: skip


class MortalDisk(FolderDisk):
    """Kills its process before the step of this number, from 0 on."""

    def __init__(self, step: int) -> None:
        self._left = step
        self.done = 0

    def __getattribute__(self, name: str) -> object:
        if name in STEPS:
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1
            self.done += 1
        return super().__getattribute__(name)


def compact_and_die(folders: list[Path]) -> list[bool]:
    """Compact each of these in a process that dies before the step of its number; those killed."""
    command = [sys.executable, "-m", __name__, *map(str, folders)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return [code == str(-signal.SIGKILL) for code in ended.stdout.split()]


def fork_for_each(folders: list[str]) -> None:
    """Print how the process of each folder has ended."""
    for step, folder in enumerate(folders):
        pid = os.fork()
        if not pid:
            compact(folder, disk=MortalDisk(step))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def rows_by_log(folder: Path) -> list[int] | None:
    """The rows by Spark's log, None where it names files that are gone, which Spark says aloud."""
    try:
        return lake.by_log(folder)
    except FileNotFoundError:
        return None


def test_rows_are_the_same_whenever_it_is_killed(tmp_path: Path) -> None:
    disk = MortalDisk(-1)
    compact(lake.make(tmp_path / "whole"), disk=disk)
    assert disk.done > 40
    made = [lake.make(tmp_path / str(step) / "lake") for step in range(disk.done + 1)]
    # The last has no such step and is not killed.
    assert compact_and_die(made) == [True] * disk.done + [False]
    gone = 0
    for step, folder in enumerate(made):
        assert lake.by_listing(folder) == lake.numbers(), step
        rows = rows_by_log(folder)
        assert rows in (None, lake.numbers()), step
        gone += rows is None
        if step % 2:
            finish(folder)  # as the pipeline does before it goes on
        compact(folder)
        assert lake.by_log(folder) == lake.by_listing(folder) == lake.numbers(), step
        assert len(lake.files(folder)) == (1 + lake.BATCHES - lake.SETTLED) * len(lake.HOURS)
        assert not staging_of(folder).exists()
    # From the first exchange to the new log, and only then.
    assert 0 < gone < 15


if __name__ == "__main__":
    fork_for_each(sys.argv[1:])
