"""``kill -9`` over everything at once: what was acknowledged is there, and nothing else."""

from __future__ import annotations

import random

from .everything import FLAGS, PROPERTIES, Everything
from .node import run_node
from .report import Result, progress

LIFE_S = (0.2, 0.6)
CHECKED_EVERY = 5
"""Lives between two checks of RocketMQ's queues; what was stored since then is read."""


async def kills(rounds: int, level: str, rng: random.Random) -> Result:
    """So many lives of a node under load, each ended by SIGKILL."""
    flags = (*FLAGS, f"--durability={level}")
    with run_node(*flags, properties=PROPERTIES) as node:
        everything = Everything(node, rng)
        await everything.prepare()
        for number in progress(rounds, lambda: everything):
            await everything.run(rng.uniform(*LIFE_S))
            node.start()
            if number % CHECKED_EVERY == 0:
                await everything.check()
        await everything.check()
        await everything.settle()
        assert node.stop() == 0
    return Result(
        f"kill -9 at `{level}`", f"{rounds} kills",
        f"{everything.acknowledged} acknowledged ({everything})", everything.faults(),
    )  # fmt: skip
