"""Private file systems of a campaign: invisible to other processes, and gone when it ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_PRIVATE = "PENSTOCK_PRIVATE_MOUNTS"


def enter_private_mounts() -> None:
    """Run this program again in a private mount namespace. Needs root and `unshare`."""
    if os.environ.get(_PRIVATE):
        return
    if os.geteuid() != 0:
        sys.exit("this campaign mounts file systems: run it as root")
    need("unshare", "util-linux")
    os.environ[_PRIVATE] = "1"
    os.execvp("unshare", ["unshare", "--mount", *sys.orig_argv])


def need(program: str, package: str) -> None:
    """Exit with one line unless the program is installed."""
    if shutil.which(program) is None:
        sys.exit(f"this campaign needs {program}: install the package {package}")


def run(*words: str | Path) -> str:
    """Run a command that must succeed; returns its output."""
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout.strip()


@contextmanager
def mounted(where: Path, *words: str | Path) -> Iterator[None]:
    """A file system at this folder until the end of the block."""
    where.mkdir(exist_ok=True)
    run("mount", *words, where)
    try:
        yield
    finally:
        run("umount", where)


class Image:
    """An ext4 file system in a file, which can lose its power.

    Writes that are still in the kernel's caches are not in the file, so a copy of the file is the
    disk after a power cut. The copy is mounted in place of the original, as at the next boot.
    """

    circumstances = ()

    def __init__(self, folder: Path, megabytes: int, options: Sequence[str] = ()) -> None:
        need("mkfs.ext4", "e2fsprogs")
        self._point = folder / "mounted"
        self._point.mkdir()
        self.data = self._point / "data"
        self._options = ",".join(("loop", *options))
        self._file = folder / "0.img"
        self._copies = 0
        with self._file.open("wb") as file:
            file.truncate(megabytes << 20)
        run("mkfs.ext4", "-q", "-F", self._file)
        self._mount()

    def _mount(self) -> None:
        run("mount", "-o", self._options, self._file, self._point)
        device = run("findmnt", "-n", "-o", "SOURCE", self._point)
        self._figures = Path("/sys/block", Path(device).name, "stat")

    def cut_power(self, _: object = None) -> None:
        """Mount the content that the disk had at one moment. Nothing may be writing any more."""
        self._copies += 1
        copy = self._file.with_name(f"{self._copies}.img")
        before = None
        while before != (before := self._writes()):
            run("cp", "--sparse=always", self._file, copy)
        run("umount", self._point)
        self._file.unlink()
        self._file = copy
        self._mount()

    def _writes(self) -> list[str]:
        """Counters of finished writes and pending requests: a copy is of one moment if they are
        equal before and after it.
        """
        figures = self._figures.read_text().split()
        return [figures[4], figures[8]]

    def close(self) -> None:
        run("umount", self._point)
        self._file.unlink()
