"""A primary and its followers, to which everything happens while clients publish and consume.

A round is one fault: of the primary, after which a follower is promoted and the old primary comes
back as its copy, or of a follower. Where there are two of them, the other one goes on after the old
primary for a while. The topic keeps all it ever had, so after each round the log is held against
what the clients were told. The nodes are nsqds, or mqbrokers.
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
from itertools import cycle
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
"""Rounds of the same nodes, whose OKs wait for so many copies, or for none."""
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
JUMPS_S: Final = (DAY_S, -DAY_S, HOUR_S, -HOUR_S, 0)
BEGUN_S: Final = 0.2
"""From the start of a new follower to the death of its primary."""
LATE_SHARE: Final = 0.5
"""Of the other followers, those that go on after the old primary until it is back."""
SLOW_S: Final = 1.0
"""The time by which a machine may be late that does other work too."""
PAIRS: Final[dict[str, type[NsqdPair | BrokerPair]]] = {"nsqd": NsqdPair, "mqbroker": BrokerPair}
COUNTS: Final = {2: "a pair of", 3: "three"}

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
    await _killed(pair, rng)
    _lose_disk(pair.first)


def _lose_disk(member: Any) -> None:
    shutil.rmtree(member.data_path)
    member.data_path.mkdir()


async def _clocks_set(pair: Pair, rng: random.Random) -> None:
    for clock in pair.clocks:
        clock.set(rng.choice(JUMPS_S))
    await asyncio.sleep(rng.uniform(*LIFE_S))
    await _killed(pair, rng)


async def _power_cut(pair: Pair, rng: random.Random) -> None:
    await pair.cut_power(pair.first)


async def _none(pair: Pair, rng: random.Random) -> None:
    """A change-over, in which the old primary hands over."""


async def _left_behind(pair: Pair, rng: random.Random) -> None:
    """The follower that is promoted is away for longer than its bound on lag before its primary
    dies, which goes on if it need not wait.
    """
    heir = pair.followers[0]
    heir.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(rng.uniform(*BEHIND_S))
        await _killed(pair, rng)
    finally:
        heir.signal(signal.SIGCONT)
    await pair.refuses_promotion(heir, ("LAGS", "NOT_WHOLE"))


async def _heir_stopped(pair: Pair, rng: random.Random) -> None:
    """The follower that is promoted has not what came last: the other one has."""
    heir = pair.followers[0]
    heir.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(rng.uniform(*LIFE_S))
        await _killed(pair, rng)
    finally:
        heir.signal(signal.SIGCONT)


async def _other_is_new(pair: Pair, rng: random.Random) -> None:
    """The other follower, whose first copy may not have ended, is refused where it has not."""
    other = pair.followers[-1]
    await asyncio.to_thread(other.kill)
    _lose_disk(other)
    if pair.story.acked < len(pair.followers):
        await pair.until_acknowledged()  # by the heir, which so has what only the other one had
    await pair.start_following(other)
    await asyncio.sleep(rng.uniform(0, BEGUN_S))
    await _killed(pair, rng)
    said = await pair.until_alone(other)
    if not said["was_whole"]:
        await pair.refuses_promotion(other, ("NOT_WHOLE", "NOT_PROMOTED"))


async def _follower_killed(pair: Pair, rng: random.Random) -> None:
    await asyncio.to_thread(pair.followers[0].kill)
    await _while_away(pair, rng)
    await pair.follow(pair.followers[0])


async def _follower_power_cut(pair: Pair, rng: random.Random) -> None:
    await pair.cut_power(pair.followers[0])
    await pair.follow(pair.followers[0])


async def _follower_cut(pair: Pair, rng: random.Random) -> None:
    await pair.network.cut(pair.followers[0].number)
    await _while_away(pair, rng)
    await pair.network.mend()


async def _while_away(pair: Pair, rng: random.Random) -> None:
    """A follower is away, and publishes go on if they need not wait for it."""
    await asyncio.sleep(rng.uniform(*AFTER_S))
    if pair.story.acked < len(pair.followers):
        await pair.until_acknowledged()


OF_PRIMARY: Final[dict[str, Fault]] = {
    "killed": _killed, "cut": _cut, "parted": _parted, "stopped": _stopped,
    "disk lost": _disk_lost, "power cut": _power_cut, "clocks set": _clocks_set,
    "copy left behind": _left_behind, "changed over": _none,
}  # fmt: skip
"""Faults after which a follower is promoted, but for the last."""
OF_THREE: Final[dict[str, Fault]] = {
    "heir stopped": _heir_stopped, "other is new": _other_is_new, "both promoted": _killed,
}  # fmt: skip
"""More of them, where there is another follower."""
SUCCESSION: Final = "left behind promoted"
BEHIND_S: Final = (1.2, 3.0)
"""The time for which a copy is left behind; the bound on lag is a second."""
LOSING: Final = ("disk lost", "power cut")
"""Those after which the old primary has not all that it had."""
OF_FOLLOWER: Final[dict[str, Fault]] = {
    "follower killed": _follower_killed, "follower cut": _follower_cut,
    "follower's power cut": _follower_power_cut,
}  # fmt: skip
KINDS: Final = {
    2: (*OF_PRIMARY, *OF_FOLLOWER),
    3: (*OF_PRIMARY, *OF_FOLLOWER, *OF_THREE, SUCCESSION),
}
"""The faults, by the number of nodes."""


async def _promotion(pair: Pair, name: str, rng: random.Random, slow_s: float) -> None:
    """One fault of the primary, the promotion under load, and the old primary's way back."""
    old = pair.first
    before = pair.clients(old)
    after: PairClients | None = None
    try:
        await pair.until_acknowledged()
        await asyncio.sleep(rng.uniform(*LIFE_S))
        struck = time.monotonic()
        await (OF_PRIMARY | OF_THREE)[name](pair, rng)
        await asyncio.sleep(rng.uniform(*AFTER_S))
        heirs = pair.followers if name == "both promoted" else pair.followers[:1]
        if name == "changed over":
            struck = float("inf")
        kept_until = await pair.promote(*heirs, struck=struck)
        after = pair.clients(pair.first)
        await asyncio.sleep(rng.uniform(*LIFE_S))
        if name == "stopped":
            old.signal(signal.SIGCONT)
        await pair.network.mend()
        others = [each for each in pair.followers if each is not old]
        are_late = rng.random() < LATE_SHARE
        returned = [] if are_late else [await pair.follow(each) for each in others]
        late = others if are_late else []
        fenced = await _fenced(pair, old, late)
        await before.stop()
        returned.append(await pair.follow(old))
        for each in late:
            await pair.until_told(each)
            returned.append(await pair.follow(each))
        await pair.until_acknowledged()
    finally:
        await before.stop()
        if after is not None:
            await after.stop()
    await _judge(pair, name, kept_until, returned, slow_s, fenced)


async def _succession(pair: Pair, name: str, rng: random.Random, slow_s: float) -> None:
    """A follower that was left behind is promoted in the place of a second primary that has died;
    if it has heard of that one's epoch and not followed it, it must not take it again.
    """
    first, heir, last = pair.first, *pair.followers
    clients = pair.clients(first)
    try:
        await pair.until_acknowledged()
        await asyncio.sleep(rng.uniform(*LIFE_S))
        struck = time.monotonic()
        await asyncio.to_thread(first.kill)
        await pair.promote(heir, struck=struck)
        await clients.stop()
        clients = pair.clients(heir)
        await asyncio.sleep(rng.uniform(*LIFE_S))
        returned = [await pair.follow(first)]
        if pair.story.acked < len(pair.followers):
            await pair.until_acknowledged()
        await pair.until_told(last)
        await asyncio.to_thread(heir.kill)
        if (await pair.until_alone(last))["epoch"] < pair.epoch:
            await pair.refuses_promotion(last, ("NOT_PROMOTED",))
        kept_until = await pair.promote(last, force=True)
        await clients.stop()
        clients = pair.clients(last)
        await asyncio.sleep(rng.uniform(*LIFE_S))
        returned += [await pair.follow(each) for each in (first, heir)]
        await pair.until_acknowledged()
    finally:
        await clients.stop()
    await _judge(pair, name, kept_until, returned, slow_s)


async def _judge(
    pair: Pair, name: str, kept_until: float, returned: list[dict[str, Any]], slow_s: float,
    fenced: object = None,
) -> None:  # fmt: skip
    """Hold the logs after a promotion against what the clients were told."""
    story = pair.story
    await pair.until_same()
    lost = await pair.judge(kept_until)
    kept_aside = sum(sum(each["put_aside"].values()) for each in returned)
    if name not in LOSING and kept_aside < len(lost):
        story.fault(f"{len(lost)} are lost, and {kept_aside} put aside ({fenced})")
    pair.lost.update(lost)
    pair.aside += len(lost) if name not in LOSING else 0
    if story.seconds_behind > pair.seconds_behind_max + slow_s:
        story.fault(f"progress is {story.seconds_behind:.2f} s behind")
    for each in pair.followers:
        shutil.rmtree(each.data_path / "aside", ignore_errors=True)


async def _fenced(pair: Pair, old: Any, late: Collection[Any]) -> dict[str, Any]:
    """Wait until an old primary that runs has heard of the new one, and those that follow it still
    have heard of that, and end it.
    """
    if not old.is_running:
        return {}
    told = await pair.until_stepped_back(old)
    for each in late:
        await pair.until_told(each)
    await asyncio.to_thread(old.kill)
    return told


async def _trouble(pair: Pair, name: str, rng: random.Random) -> None:
    """One fault of a follower."""
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
        self.acknowledged: Counter[int] = Counter()
        self.lost = self.aside = 0
        self.seconds_behind = 0.0
        self.again = 0
        self.faults: list[str] = []

    def add(self, pair: Pair) -> None:
        story = pair.story
        self.acknowledged[story.acked] += story.ledger.report().acknowledged
        self.lost += len(pair.lost)
        self.aside += pair.aside
        self.seconds_behind = max(self.seconds_behind, story.seconds_behind)
        self.again += story.again
        self.faults += story.faults

    def __str__(self) -> str:
        acknowledged = "; ".join(
            f"N={level}: {count:,} acknowledged"
            for level, count in sorted(self.acknowledged.items(), reverse=True)
        )
        return (f"{acknowledged}, {self.lost:,} of all younger than "
                f"the lag and not in the copy, {self.aside:,} of these put aside; "
                f"{self.again:,} finished and delivered again, none finished more than "
                f"{self.seconds_behind:.2f} s before the copy")  # fmt: skip


async def copies(
    rounds: int,
    network: Callable[[], Network],
    rng: random.Random,
    level: str = "write",
    program: str = "nsqd",
    kinds: Collection[str] = (),
    slow_s: float = SLOW_S,
    nodes: int = 2,
) -> Result:
    """Faults of so many nodes, of all ``kinds`` where none are named. In each series an OK waits
    for one copy less, after none for all again. On a machine that does other work progress may be
    ``slow_s`` later than it should.
    """
    tally = _Tally()
    dialect = PAIRS[program]
    levels = cycle(range(min(nodes - 1, dialect.acked_max), -1, -1))
    left, done = rounds, True
    while left > 0 and done:
        with tempfile.TemporaryDirectory(prefix="penstock-copies-") as folder:
            pair = dialect(network(), Path(folder), rng, level, nodes=nodes, acked=next(levels))
            done = await _series(pair, min(left, SERIES), kinds or KINDS[nodes], tally, slow_s)
        tally.add(pair)
        left -= SERIES
    faults = ", ".join(f"{count} {name}" for name, count in sorted(tally.rounds.items()))
    return Result(f"{COUNTS[nodes]} {dialect.of} at `{level}`",
                  f"{tally.rounds.total()} rounds: {faults}",
                  str(tally), tally.faults)  # fmt: skip


async def _series(
    pair: Pair, count: int, all_kinds: Collection[str], tally: _Tally, slow_s: float
) -> bool:
    """The rounds of the same nodes; False if none of them was begun."""
    is_any, rng = False, pair.story.rng
    try:
        await pair.start()
        kinds: list[str] = []
        state = lambda: f"of these nodes; {tally.rounds.total()} in all; {pair.story}"  # noqa: E731
        for _ in progress(count, state):
            kinds = kinds or rng.sample([*all_kinds], len(all_kinds))
            name = kinds.pop()
            is_any = True
            pair.story.round = name
            rng.shuffle(pair.followers)
            if name in OF_FOLLOWER:
                await _trouble(pair, name, rng)
            else:
                run = _succession if name == SUCCESSION else _promotion
                await run(pair, name, rng, slow_s)
            tally.rounds[name] += 1
        pair.story.round = ""
        pair.set_clocks_ahead()
        await pair.drain()
        await pair.judge_all()
    except Exception as error:
        logs = [f"node {each.number}: {each.log()[-2000:]}" for each in pair.members]
        for text in (*explained(error), *logs):
            pair.story.fault(text)
    finally:
        await asyncio.to_thread(pair.close)
        await pair.network.close()
    return is_any
