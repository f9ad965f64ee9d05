"""Power cuts: a node on an ext4 image loses what the kernel had not brought to the disk.

The node is killed and the image copied at once: what was written and not synced is still in the
kernel's cache, and not in the copy. The next life begins on the copy, after ext4 replayed its
journal. No id and no offset may ever name two messages.
"""

from __future__ import annotations

import math
import os
import random
import tempfile
from pathlib import Path
from typing import Final

from .everything import FLAGS, PROPERTIES, Everything
from .mounts import Image
from .node import run_node
from .report import Result, explained, progress

LIFE_S: Final = (0.2, 0.6)
CUTS_OF_AN_IMAGE: Final = 10
IMAGE_MB: Final = 192
OPTIONS: Final = (("noauto_da_alloc",), ("noauto_da_alloc", "data=writeback"))
"""Without ext4's help for programs that forget to sync; with data=writeback a file may have its new
size and not its new content.
"""


async def power_cuts(cuts: int, level: str, rng: random.Random) -> Result:
    """So many cuts, on a fresh image after every few."""
    faults: list[str] = []
    acknowledged = 0
    series = math.ceil(cuts / CUTS_OF_AN_IMAGE)
    for _ in progress(series, lambda: f"{acknowledged} acknowledged, {len(faults)} faults"):
        with tempfile.TemporaryDirectory(dir=_memory()) as folder:
            image = Image(Path(folder), IMAGE_MB, rng.choice(OPTIONS))
            try:
                count, found = await _series(image, level, rng)
            finally:
                image.close()
        acknowledged += count
        faults += found
    size = f"{series * CUTS_OF_AN_IMAGE} cuts, ext4"
    return Result(f"power cut at `{level}`", size, f"{acknowledged} acknowledged", faults)


async def _series(image: Image, level: str, rng: random.Random) -> tuple[int, list[str]]:
    """How many messages were acknowledged over the cuts of one image, and what went wrong."""
    flags = (*FLAGS, f"--durability={level}")
    data = image.mount_point / "data"
    with run_node(*flags, data_path=data, properties=PROPERTIES) as node:
        everything = Everything(node, rng)
        everything.nsq.numbers_of_ids = {}
        try:
            await everything.prepare()
            for _ in range(CUTS_OF_AN_IMAGE):
                await everything.run(rng.uniform(*LIFE_S))
                image.cut_power()
                everything.rocketmq.forget_durable()
                node.start()
                await everything.check()
            await everything.settle()
            found = everything.faults()
        except Exception as error:
            found = explained(error)
    return everything.acknowledged, found


def _memory() -> str | None:
    """A folder in memory, where there is one: an image there costs the real disk nothing."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None
