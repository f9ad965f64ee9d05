"""Power cuts: a node on an ext4 image loses all writes that the kernel had not brought to the disk.

The node is killed and the image copied at once: unsynced writes are still in the kernel's cache,
and not in the copy. The next life begins on the copy, after ext4 has replayed its journal. No id
and no offset may ever name two messages.
"""

from __future__ import annotations

import math
import os
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from tools.harness.forking import Circumstance

from .everything import FLAGS, PROPERTIES, Everything
from .mounts import Image
from .node import run_node
from .report import Result, explained, progress
from .stable import Noted

LIFE_S: Final = (0.2, 0.6)
CUTS_OF_AN_IMAGE: Final = 10
IMAGE_MB: Final = 192
OPTIONS: Final = (("noauto_da_alloc",), ("noauto_da_alloc", "data=writeback"))
"""The mount options, without ext4's help for programs that forget to sync. With data=writeback a
file may have its new size without its new content.
"""


async def power_cuts(cuts: int, level: str, rng: random.Random) -> Result:
    """Cut the power this number of times, with a new image after every few cuts."""
    tally = _Tally()
    series = math.ceil(cuts / CUTS_OF_AN_IMAGE)
    for _ in progress(series, lambda: tally):
        with tempfile.TemporaryDirectory(dir=_memory()) as folder:
            image = Image(Path(folder), IMAGE_MB, rng.choice(OPTIONS))
            try:
                tally.add(*await _series(image, CUTS_OF_AN_IMAGE, level, rng))
            finally:
                image.close()
    return tally.result(level, f"{series * CUTS_OF_AN_IMAGE} cuts, ext4")


async def pretended_cuts(cuts: int, level: str, rng: random.Random) -> Result:
    """Cut the power this number of times on a simulated disk, which loses unsynced writes."""
    tally = _Tally()
    with tempfile.TemporaryDirectory(prefix="penstock-power-") as folder:
        tally.add(*await _series(Pretended(Path(folder)), cuts, level, rng))
    return tally.result(level, f"{cuts} cuts, pretended")


class Disk(Protocol):
    """A disk that can lose its power while nothing writes to it."""

    @property
    def data(self) -> Path: ...

    @property
    def circumstances(self) -> tuple[Circumstance, ...]: ...

    def cut_power(self, rng: random.Random) -> None: ...


class Pretended:
    """A folder whose node notes which content is synced."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._noted = Noted(self.data, folder / "notes")
        self.circumstances = (self._noted,)

    def cut_power(self, rng: random.Random) -> None:
        self._noted.cut_power(rng)


async def _series(disk: Disk, cuts: int, level: str, rng: random.Random) -> tuple[int, list[str]]:
    """The number of messages acknowledged over the cuts of one disk, and the faults found."""
    flags = (*FLAGS, f"--durability={level}")
    with run_node(*flags, data_path=disk.data, properties=PROPERTIES,
                  circumstances=disk.circumstances) as node:  # fmt: skip
        everything = Everything(node, rng)
        everything.nsq.numbers_of_ids = {}
        try:
            await everything.prepare()
            for _ in range(cuts):
                await everything.run(rng.uniform(*LIFE_S))
                disk.cut_power(rng)
                everything.rocketmq.forget_durable()
                node.start()
                await everything.check()
            await everything.settle()
            found = everything.faults()
        except Exception as error:
            found = [*explained(error), node.log()[-3000:]]
    return everything.acknowledged, found


@dataclass
class _Tally:
    acknowledged: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, acknowledged: int, faults: list[str]) -> None:
        self.acknowledged += acknowledged
        self.faults += faults

    def result(self, level: str, size: str) -> Result:
        return Result(f"power cut at `{level}`", size, f"{self.acknowledged} acknowledged",
                      self.faults)  # fmt: skip

    def __str__(self) -> str:
        return f"{self.acknowledged} acknowledged, {len(self.faults)} faults"


def _memory() -> str | None:
    """A folder in memory, if there is one: an image there causes no load on the real disk."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None
