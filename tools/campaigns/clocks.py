"""Clock jumps under load, by an hour or days, ahead and back: no message is lost or late."""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from tools.harness.forking import Circumstance

from .circumstances import Clock
from .everything import FLAGS, PROPERTIES, TIMEOUT, Everything
from .node import PROGRAM, run_node
from .report import Result, explained, progress

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
JUMPS_S: Final = (DAY_S, -DAY_S, HOUR_S, -HOUR_S, 5 * DAY_S, -5 * DAY_S, 0)
"""The offsets from the right time to set the clock to. RocketMQ keeps its messages for 3 days."""
AHEAD_S: Final = 5 * DAY_S
WORK_S: Final = 0.4
LIBRARY: Final = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


class Wall(Protocol):
    """A wall clock that a campaign sets, with the means to start a node that uses it."""

    @property
    def circumstances(self) -> tuple[Circumstance, ...] | None: ...

    @property
    def program(self) -> Sequence[str]: ...

    def set(self, seconds: int) -> None: ...


class Patched:
    """The clock of a forked node."""

    program = PROGRAM

    def __init__(self, folder: Path) -> None:
        self._clock = Clock(folder / "offset")
        self._clock.set(0)
        self.circumstances = (self._clock,)

    def set(self, seconds: int) -> None:
        self._clock.set(seconds)


class Faketime:
    """The system's clock as libfaketime changes it, for a program started by its command line."""

    circumstances = None

    def __init__(self, folder: Path) -> None:
        if not LIBRARY.exists():
            sys.exit("this campaign needs libfaketime: install the package faketime")
        self._file = folder / "offset"
        self.set(0)
        self.program = (
            "env", f"LD_PRELOAD={LIBRARY}", f"FAKETIME_TIMESTAMP_FILE={self._file}",
            "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", *PROGRAM,
        )  # fmt: skip

    def set(self, seconds: int) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}s\n")
        new.rename(self._file)


async def clock_jumps(rounds: int, kind: Callable[[Path], Wall], rng: random.Random) -> Result:
    """Set the clock this number of times under load; at every fourth, the node is killed and starts
    days later.
    """
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="penstock-clock-") as folder:
        wall = kind(Path(folder))
        with run_node(*FLAGS, TIMEOUT, properties=PROPERTIES, circumstances=wall.circumstances,
                      program=wall.program) as node:  # fmt: skip
            everything = Everything(node, rng)
            try:
                await everything.prepare()
                for number in progress(rounds, lambda: everything):
                    await everything.work(WORK_S)
                    wall.set(rng.choice(JUMPS_S))
                    if number % 4 == 0:
                        await everything.endure(WORK_S)
                        wall.set(AHEAD_S)  # behind, what was deferred comes when it says so again
                        node.start()
                    await everything.work(WORK_S)
                    await everything.check()
                await everything.settle()
                faults += everything.faults()
            except Exception as error:
                faults += [*explained(error), node.log()[-3000:]]
    return Result("clock jumps", f"{rounds} jumps", f"{everything.acknowledged} acknowledged",
                  faults)  # fmt: skip
