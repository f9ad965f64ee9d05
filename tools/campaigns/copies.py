"""A primary and its follower, to which everything happens while clients publish and consume.

A round is one fault: of the primary, after which the follower is promoted and the old primary comes
back as its copy, or of the follower. The topic keeps all it ever had, so after each round the log
is held against what the clients were told. The pair is one of nsqds, or of mqbrokers.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any, Final

from .broker_pair import BrokerPair
from .nsqd_pair import NsqdPair
from .pair_clients import PairClients
from .pairs import Pair
from .report import Result, explained, progress
from .wires import Network

LIFE_S: Final = (0.2, 0.6)
AFTER_S: Final = (0.1, 1.0)
"""From the fault to the promotion."""
SERIES: Final = 10
"""Rounds of one pair, whose OKs wait for a copy, or do not."""
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
JUMPS_S: Final = (DAY_S, -DAY_S, HOUR_S, -HOUR_S, 0)
SLOW_S: Final = 1.0
"""The time by which a machine may be late that does other work too."""
PAIRS: Final[dict[str, type[NsqdPair | BrokerPair]]] = {"nsqd": NsqdPair, "mqbroker": BrokerPair}

Fault = Callable[[Pair, random.Random], Awaitable[None]]


async def _killed(pair: Pair, rng: random.Random) -> None:
    await asyncio.to_thread(pair.first.kill)


async def _cut(pair: Pair, rng: random.Random) -> None:
    await pair.network.cut(pair.first.number)


async def _parted(pair: Pair, rng: random.Random) -> None:
    await pair.network.part()


async def _stopped(pair: Pair, rng: random.Random) -> None:
    pair.first.signal(signal.SIGSTOP)


async def _disk_lost(pair: Pair, rng: random.Random) -> None:
    await asyncio.to_thread(pair.first.kill)
    shutil.rmtree(pair.first.data_path)
    pair.first.data_path.mkdir()


async def _clocks_set(pair: Pair, rng: random.Random) -> None:
    for clock in pair.clocks:
        clock.set(rng.choice(JUMPS_S))
    await asyncio.sleep(rng.uniform(*LIFE_S))
    await _killed(pair, rng)


async def _power_cut(pair: Pair, rng: random.Random) -> None:
    await pair.cut_power(pair.first)


async def _none(pair: Pair, rng: random.Random) -> None:
    """A change-over, in which the old primary hands over."""


async def _follower_killed(pair: Pair, rng: random.Random) -> None:
    await asyncio.to_thread(pair.second.kill)
    await asyncio.sleep(rng.uniform(*AFTER_S))
    await pair.follow(pair.second, pair.first)


async def _follower_power_cut(pair: Pair, rng: random.Random) -> None:
    await pair.cut_power(pair.second)
    await pair.follow(pair.second, pair.first)


async def _follower_cut(pair: Pair, rng: random.Random) -> None:
    await pair.network.cut(pair.second.number)
    await asyncio.sleep(rng.uniform(*AFTER_S))
    await pair.network.mend()


OF_PRIMARY: Final[dict[str, Fault]] = {
    "killed": _killed, "cut": _cut, "parted": _parted, "stopped": _stopped,
    "disk lost": _disk_lost, "power cut": _power_cut, "clocks set": _clocks_set,
    "changed over": _none,
}  # fmt: skip
"""Faults after which the follower is promoted, but for the last."""
LOSING: Final = ("disk lost", "power cut")
"""Those after which the old primary has not all that it had."""
OF_FOLLOWER: Final[dict[str, Fault]] = {
    "follower killed": _follower_killed, "follower cut": _follower_cut,
    "follower's power cut": _follower_power_cut,
}  # fmt: skip
KINDS: Final = (*OF_PRIMARY, *OF_FOLLOWER)


async def _promotion(pair: Pair, name: str, rng: random.Random, slow_s: float) -> None:
    """One fault of the primary, the promotion under load, and the old primary's way back."""
    story, old, epoch = pair.story, pair.first, pair.epoch
    before = pair.clients(old)
    after: PairClients | None = None
    try:
        await pair.until_acknowledged()
        await asyncio.sleep(rng.uniform(*LIFE_S))
        struck = time.monotonic()
        await OF_PRIMARY[name](pair, rng)
        await asyncio.sleep(rng.uniform(*AFTER_S))
        kept_until = await pair.promote()
        story.kept[epoch] = kept_until if name == "changed over" else min(struck, kept_until)
        after = pair.clients(pair.first)
        await asyncio.sleep(rng.uniform(*LIFE_S))
        if name == "stopped":
            old.signal(signal.SIGCONT)
        await pair.network.mend()
        fenced = await _fenced(pair, old)
        await before.stop()
        returned = await pair.follow(old, pair.first)
        await pair.until_acknowledged()
    finally:
        await before.stop()
        if after is not None:
            await after.stop()
    await pair.until_same()
    lost = await pair.judge(kept_until)
    kept_aside = sum(returned["put_aside"].values())
    if name not in LOSING and kept_aside < len(lost):
        story.fault(f"{name}: {len(lost)} are lost, and {kept_aside} put aside ({fenced})")
    pair.lost.update(lost)
    pair.aside += len(lost) if name not in LOSING else 0
    if story.seconds_behind > pair.seconds_behind_max + slow_s:
        story.fault(f"{name}: progress is {story.seconds_behind:.2f} s behind")
    shutil.rmtree(old.data_path / "aside", ignore_errors=True)


async def _fenced(pair: Pair, old: Any) -> dict[str, Any]:
    """Wait until an old primary that runs has heard of the new one, and end it."""
    if not old.is_running:
        return {}
    told = await pair.until(old, role="fenced", fenced_epoch=pair.epoch)
    await asyncio.to_thread(old.kill)
    return told


async def _trouble(pair: Pair, name: str, rng: random.Random) -> None:
    """One fault of the follower."""
    clients = pair.clients(pair.first)
    try:
        await pair.until_acknowledged()
        await asyncio.sleep(rng.uniform(*LIFE_S))
        await OF_FOLLOWER[name](pair, rng)
        await pair.until_acknowledged()
    finally:
        await clients.stop()
    await pair.until_same()
    await pair.judge(time.monotonic())


class _Tally:
    """The results of all series so far."""

    def __init__(self) -> None:
        self.rounds: Counter[str] = Counter()
        self.acknowledged: Counter[bool] = Counter()
        self.lost = self.aside = 0
        self.seconds_behind = 0.0
        self.again = 0
        self.faults: list[str] = []

    def add(self, pair: Pair) -> None:
        story = pair.story
        self.acknowledged[story.is_acked] += story.ledger.report().acknowledged
        self.lost += len(pair.lost)
        self.aside += pair.aside
        self.seconds_behind = max(self.seconds_behind, story.seconds_behind)
        self.again += story.again
        self.faults += story.faults

    def __str__(self) -> str:
        return (f"N=1: {self.acknowledged[True]:,} acknowledged; N=0: "
                f"{self.acknowledged[False]:,} acknowledged, {self.lost:,} of them younger than "
                f"the lag and not in the copy, {self.aside:,} of these put aside; "
                f"{self.again:,} finished and delivered again, none finished more than "
                f"{self.seconds_behind:.2f} s before the copy")  # fmt: skip


async def copies(
    rounds: int,
    network: Callable[[], Network],
    rng: random.Random,
    level: str = "write",
    program: str = "nsqd",
    kinds: Collection[str] = KINDS,
    slow_s: float = SLOW_S,
) -> Result:
    """Faults of pairs, so many together. Every second pair waits for the copy before an OK. On a
    machine that does other work progress may be ``slow_s`` later than it should.
    """
    tally = _Tally()
    left, is_acked, done = rounds, True, True
    while left > 0 and done:
        with tempfile.TemporaryDirectory(prefix="penstock-copies-") as folder:
            pair = PAIRS[program](network(), Path(folder), rng, level, is_acked=is_acked)
            done = await _series(pair, min(left, SERIES), kinds, tally, slow_s)
        tally.add(pair)
        left -= SERIES
        is_acked = not is_acked
    faults = ", ".join(f"{count} {name}" for name, count in sorted(tally.rounds.items()))
    return Result(f"{PAIRS[program].name} at `{level}`", f"{tally.rounds.total()} rounds: {faults}",
                  str(tally), tally.faults)  # fmt: skip


async def _series(
    pair: Pair, count: int, all_kinds: Collection[str], tally: _Tally, slow_s: float
) -> bool:
    """The rounds of one pair; False if none of them was begun."""
    is_any, rng = False, pair.story.rng
    try:
        await pair.start()
        kinds: list[str] = []
        state = lambda: f"of this pair; {tally.rounds.total()} in all; {pair.story}"  # noqa: E731
        for _ in progress(count, state):
            kinds = kinds or rng.sample([*all_kinds], len(all_kinds))
            name = kinds.pop()
            is_any = True
            try:
                if name in OF_PRIMARY:
                    await _promotion(pair, name, rng, slow_s)
                else:
                    await _trouble(pair, name, rng)
            except Exception as error:
                error.add_note(f"in a round: {name}")
                raise
            tally.rounds[name] += 1
        pair.set_clocks_ahead()
        await pair.drain()
        await pair.judge_all()
    except Exception as error:
        pair.story.faults += [*getattr(error, "__notes__", ()), *explained(error)]
        pair.story.faults += [f"node {each.number}: {each.log()[-2000:]}" for each in pair.members]
    finally:
        await asyncio.to_thread(pair.close)
        await pair.network.close()
    return is_any
