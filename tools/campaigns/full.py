"""A disk that fills up and has room again: publishes are refused, consumers go on, nothing is lost,
and publishing resumes without a restart once there is room.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from penstock.net.http.client.once import request
from tools.harness.forking import Circumstance

from .circumstances import Full
from .everything import FLAGS, PROPERTIES, TIMEOUT, Everything
from .mounts import mounted
from .node import Node, run_node
from .report import Result, explained, progress

WORK_S: Final = 0.3
SECONDS_MAX: Final = 60.0
TMPFS_MB: Final = 2048
PIECE: Final = 1 << 16
PUBLISH: Final = "/pub?topic=probe"
LARGE: Final = bytes(64 << 10)
"""More than the last page of a file has room for."""


class Place(Protocol):
    """The place of a data path."""

    folder: Path

    @property
    def circumstances(self) -> tuple[Circumstance, ...]: ...

    def fill(self) -> None: ...

    def free(self) -> None: ...


class Pretended:
    """A folder whose node is told that the disk is full."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self._mark = folder / "full"
        self.circumstances = (Full(self._mark),)

    def fill(self) -> None:
        self._mark.touch()

    def free(self) -> None:
        self._mark.unlink()


class Tmpfs:
    """A small file system in memory, which a file of ballast fills to the last byte."""

    circumstances: tuple[Circumstance, ...] = ()

    def __init__(self, mount_point: Path) -> None:
        self.folder = mount_point / "data"
        self._ballast = mount_point / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(PIECE))

    def free(self) -> None:
        self._ballast.unlink()


@contextmanager
def tmpfs(megabytes: int = TMPFS_MB) -> Iterator[Tmpfs]:
    """A file system in memory that no other process sees."""
    with tempfile.TemporaryDirectory(prefix="penstock-full-") as folder:
        point = Path(folder, "mounted")
        with mounted(point, "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"):
            yield Tmpfs(point)


async def full_disks(rounds: int, place: Place, rng: random.Random) -> Result:
    """Fill the disk this number of times for a while; every third time, kill the node meanwhile."""
    faults: list[str] = []
    os.makedirs(place.folder, exist_ok=True)
    with run_node(*FLAGS, TIMEOUT, data_path=place.folder, properties=PROPERTIES,
                  circumstances=place.circumstances) as node:  # fmt: skip
        everything = Everything(node, rng)
        try:
            await everything.prepare()
            for number in progress(rounds, lambda: everything):
                await everything.work(WORK_S)
                await _fill_and_free(place, node, everything, killed=number % 3 == 0)
                await everything.check()
            await everything.settle()
            faults += everything.faults()
        except Exception as error:
            faults += [*explained(error), node.log()[-3000:]]
    return Result("full disk", f"{rounds} times full", f"{everything.acknowledged} acknowledged",
                  faults)  # fmt: skip


async def _fill_and_free(place: Place, node: Node, everything: Everything, *, killed: bool) -> None:
    place.fill()
    try:
        await everything.work(WORK_S)
        end = time.monotonic() + SECONDS_MAX
        while await _status(node, "POST", PUBLISH, LARGE) != 503:
            assert time.monotonic() < end, "it takes publishes on a full disk"
            place.fill()  # the node has deleted something
        if killed:
            await everything.endure(0.0)
    finally:
        place.free()
    if killed:
        node.start()
    end = time.monotonic() + SECONDS_MAX
    while await _status(node, "POST", PUBLISH, LARGE) + await _status(node, "GET", "/ping") != 400:
        assert time.monotonic() < end, "it does not recover"
        await asyncio.sleep(0.05)


async def _status(node: Node, method: str, path: str, body: bytes = b"") -> int:
    return (await request(method, f"http://{node.http}{path}", SECONDS_MAX, body=body)).status
