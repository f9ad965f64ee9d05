"""Failing calls: each write, sync, rename and truncate of a node under load fails once, or kills
the node.

Afterwards the node starts again, and all acknowledged messages must be there.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.testing.daemons import DaemonError

from .circumstances import CALLS, KILL, Failing
from .everything import FLAGS, PROPERTIES, Everything
from .node import run_node
from .report import Result, explained, progress, say

LIFE_S: Final = 0.7
GROWTH: Final = 1.25
"""The growth of the distance between two tested calls; the first calls of a kind are all tested."""


async def faults(cases: int, rng: random.Random) -> Result:
    """Test this number of the boundaries, drawn at random; all of them if there are fewer."""
    plan = await _plan(rng)
    chosen = rng.sample(plan, min(cases, len(plan)))
    say(f"{len(chosen)} of {len(plan)} boundaries are tried")
    outcomes: Counter[str] = Counter()
    found: list[str] = []
    acknowledged = 0
    for number in progress(len(chosen), lambda: dict(outcomes)):
        call, nth, what = chosen[number - 1]
        outcome, count, wrong, _ = await _try(call, nth, what, rng)
        outcomes[outcome] += 1
        acknowledged += count
        found += [f"{call} {nth} {what}: {each}" for each in wrong]
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    return Result("failing calls", f"{len(chosen)} of {len(plan)} boundaries",
                  f"{acknowledged} acknowledged; {words}", found)  # fmt: skip


async def _plan(rng: random.Random) -> list[tuple[str, int, str]]:
    """The faults to try, from the calls of one life: kind, number and failure of each call."""
    _, _, wrong, counts = await _try("", 0, "", rng)
    assert not wrong, wrong
    plan = []
    for call, ways in CALLS.items():
        numbers = {round(GROWTH**power) for power in range(60)}
        plan += [(call, number, what) for number in sorted(numbers) if number <= counts[call]
                 for what in (*ways, KILL)]  # fmt: skip
    return plan


async def _try(
    call: str, nth: int, what: str, rng: random.Random
) -> tuple[str, int, list[str], Counter[str]]:
    """Run one life with a fault and one without.

    Returns the outcome of the first, the number of messages acknowledged in it, the faults found in
    the second, and the calls of the first.
    """
    flags = (*FLAGS, "--sync-timeout=50ms", f"--durability={rng.choice(('write', 'fsync'))}")
    with tempfile.TemporaryDirectory(prefix="penstock-faults-") as folder:
        data = Path(folder, "data")
        everything: Everything | None = None
        outcome = "refused to start"
        failing = Failing(call, nth, what, Path(folder))
        with (
            suppress(DaemonError),
            run_node(
                *flags, data_path=data, properties=PROPERTIES, circumstances=(failing,)
            ) as node,
        ):
            everything = Everything(node, rng)
            outcome = await _live(everything)
        counts = failing.counted()
        if call and counts[call] < nth:
            outcome = "not reached"
        try:
            with run_node(*flags, data_path=data, properties=PROPERTIES) as node:
                if everything is None:
                    return outcome, 0, [], counts
                everything.move_to(node)
                await everything.check()
                await everything.settle()
                return outcome, everything.acknowledged, everything.faults(), counts
        except Exception as error:
            return outcome, 0, explained(error), counts


async def _live(everything: Everything) -> str:
    """Run one life; says if the node was still there at its end."""
    with suppress(Exception):
        await everything.prepare()
    lived = await everything.endure(LIFE_S)
    return "lived on" if lived else "died"
