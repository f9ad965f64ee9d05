"""A primary and its follower, to which everything happens while clients publish and consume.

A round is one fault: of the primary, after which the follower is promoted and the old primary comes
back as its copy, or of the follower. The topic keeps all it ever had, so after each round the log
is held against what the clients were told.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from penstock.net.http.client.once import HttpError, request
from penstock.nsq.client.log import LogClient
from penstock.testing.daemons import Daemon

from .circumstances import Clock
from .node import PROGRAM
from .pair_clients import CHANNEL, TOPIC, Clients, Side, Story
from .program import Circumstance, Forked
from .report import Result, explained, progress
from .stable import Noted
from .wires import Network

LIFE_S: Final = (0.2, 0.6)
AFTER_S: Final = (0.1, 1.0)
"""From the fault to the promotion."""
WAIT_S: Final = 120.0
SERIES: Final = 10
"""Rounds of one pair, whose OKs wait for a copy, or do not."""
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
JUMPS_S: Final = (DAY_S, -DAY_S, HOUR_S, -HOUR_S, 0)
AHEAD_S: Final = 2 * DAY_S
PROGRESS_S: Final = 0.6
"""The longest time between two saves of progress, and one answer (docs/replication.md)."""
SLOW_S: Final = 1.0
"""The time by which a machine may be late that does other work too."""
FLAGS: Final = (
    "--max-bytes-per-file=262144", "--retention-time=1000h", "--replicas-timeout=1s",
    "--msg-timeout=5s",
)  # fmt: skip
_BODY_AT: Final = 34


class Member(Daemon):
    """A node of the pair, forked from a process that has imported the program."""

    number = 0
    circumstances: Sequence[Circumstance] = ()

    def _launch(self, log: BinaryIO) -> Any:
        words = self.command()[len(self.program) :]
        return Forked(words, self.log_path, self.circumstances)

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._running().send_signal(number)

    @property
    def is_running(self) -> bool:
        return self._process is not None


class Pair:
    """Two nodes, of which ``first`` is primary, and what their clients were told."""

    def __init__(self, network: Network, folder: Path, story: Story, level: str) -> None:
        self.network = network
        self.story = story
        self.members: list[Member] = []
        self.clocks: list[Clock] = []
        self.disks: list[Noted] = []
        for number in range(2):
            home = folder / f"node{number}"
            data = home / "data"
            data.mkdir(parents=True)
            clock = Clock(home / "offset")
            clock.set(0)
            flags = [*FLAGS, f"--data-path={data}", f"--durability={level}",
                     f"--replicas-acked={int(story.is_acked)}"]  # fmt: skip
            member = Member(PROGRAM, flags, data, home)
            member.number = number
            disk = Noted(data, home / "notes")
            member.circumstances = (clock, disk, *network.circumstances(number))
            self.members.append(member)
            self.clocks.append(clock)
            self.disks.append(disk)
        self.first, self.second = self.members
        self.epoch = 1
        self.lost: set[int] = set()
        """The acknowledged messages that a promotion has lost, as its lag allows."""
        self.aside = 0
        """Those of them that the old primary has put aside."""
        self._checked = 0

    async def start(self) -> None:
        """Start both, and wait until the second has everything."""
        await self.network.open(self.members)
        for member in self.members:
            member.flags += self.network.flags(member.number)
        await asyncio.to_thread(self.first.start)
        await self.follow(self.second, self.first)

    async def follow(self, member: Member, primary: Member) -> dict[str, Any]:
        """Start a node as the follower of another, and wait until it has everything."""
        member.flags = [each for each in member.flags if not each.startswith("--follow=")]
        member.flags.append(f"--follow={self.network.doors[primary.number].peer}")
        await asyncio.to_thread(member.start)
        return await self.until(member, role="follower", whole=True, error=None, epoch=self.epoch)

    async def cut_power(self, member: Member) -> None:
        """End a node, and what of its files was not synced."""
        await asyncio.to_thread(member.kill)
        await asyncio.to_thread(self.disks[member.number].cut_power, self.story.rng)

    # --- asking --------------------------------------------------------------------------------

    async def ask(self, member: Member, method: str, path: str) -> tuple[int, Any]:
        """Status and JSON of an answer; 0 if there is none."""
        url = f"http://{self.network.doors[member.number].http}{path}"
        try:
            answer = await request(method, url, WAIT_S)
        except HttpError as error:
            return 0, {"message": str(error)}
        return answer.status, json.loads(answer.body)

    async def until(self, member: Member, **wanted: Any) -> dict[str, Any]:
        """Wait until a node says all this of itself."""
        answer: dict[str, Any] = {}
        end = time.monotonic() + WAIT_S
        while not answer.items() >= wanted.items():
            if time.monotonic() > end:
                raise TimeoutError(f"node {member.number}: {answer} instead of {wanted}\n"
                                   + member.log()[-2000:])  # fmt: skip
            await asyncio.sleep(0.05)
            answer = (await self.ask(member, "GET", "/replication"))[1]
        return answer

    def clients(self, member: Member) -> Clients:
        """Clients of a node in the epoch that it is primary in."""
        door = self.network.doors[member.number]
        return Clients(self.story, Side(f"node {member.number}", door, self.epoch))

    async def until_acknowledged(self) -> None:
        """Wait for an OK of this epoch that comes from now on."""
        now = time.monotonic()
        end = now + WAIT_S
        while not any(told.epoch == self.epoch and told.at > now
                      for told in self.story.oks.values()):  # fmt: skip
            if time.monotonic() > end:
                raise TimeoutError(f"no OK in epoch {self.epoch}\n{self.first.log()[-2000:]}")
            await asyncio.sleep(0.05)

    # --- promotion -----------------------------------------------------------------------------

    async def promote(self) -> float:
        """Promote the second, which is the first then; the moment before which what was
        acknowledged must be there.
        """
        asked = time.monotonic()
        status, answer = await self.ask(self.second, "POST", "/replication/promote")
        if status != 200:
            raise AssertionError(f"not promoted: {answer}")
        self.first, self.second = self.second, self.first
        if answer["epoch"] <= self.epoch:
            self.story.fault(f"epoch {answer['epoch']} after {self.epoch}")
        self.epoch = answer["epoch"]
        await self.until(self.first, role="primary", epoch=self.epoch)
        kept = asked - (answer["lag_seconds"] or 0.0)
        if answer["whole"]:
            kept = time.monotonic()
        return kept

    # --- judging -------------------------------------------------------------------------------

    async def judge(self, kept_until: float) -> list[int]:
        """Hold the log of the first against what the clients were told since the last time; the
        acknowledged messages that it has not, all of which must be younger than the copy was.
        """
        found = await asyncio.to_thread(self._read)
        lost = [number for number in self.story.oks if number not in found]
        if self.story.is_acked and lost:
            self.story.fault(f"acknowledged by copies, and lost: {lost[:10]}, {len(lost)} in all")
        early = [each for each in lost if self.story.oks[each].at < kept_until]
        if early:
            self.story.fault(f"lost, and older than the lag: {early[:10]}, {len(early)} in all")
        self.story.oks.clear()
        return lost

    def _read(self) -> set[int]:
        """The numbers of the messages in the part of the log that was not read before."""
        found: set[int] = set()
        topic = TOPIC.decode()
        with LogClient(self.network.doors[self.first.number].http) as log:
            end = log.offsets(topic).queues[0].end
            while self._checked < end:
                for batch in log.fetch(topic, self._checked).batches():
                    for offset in range(max(self._checked, batch.first_offset), batch.next_offset):
                        body = bytes(batch.slice(offset, offset + 1))[_BODY_AT:]
                        message_id = batch.first_id + offset - batch.first_offset
                        number = self.story.stands(self.epoch, message_id, body)
                        if number in found:
                            self.story.fault(f"message {number} is in the log twice")
                        if number is not None:
                            found.add(number)
                    self._checked = max(self._checked, batch.next_offset)
        return found

    async def drain(self) -> None:
        """Finish all that the channel of the first still owes."""
        for clock in self.clocks:
            clock.set(AHEAD_S)  # behind, what was deferred comes when it says so again
        clients = self.clients(self.first)
        await clients.stop()
        async with asyncio.timeout(WAIT_S):
            await clients.drain(self._until_finished())

    async def _until_finished(self) -> None:
        path = f"/stats?format=json&topic={TOPIC.decode()}&channel={CHANNEL.decode()}"
        owed = 1
        while owed:
            await asyncio.sleep(0.1)
            [topic] = (await self.ask(self.first, "GET", path))[1]["topics"]
            owed = sum(channel["depth"] + channel["in_flight_count"] + channel["deferred_count"]
                       for channel in topic["channels"])  # fmt: skip

    def close(self) -> None:
        for member in self.members:
            member.kill()


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


async def _promotion(pair: Pair, name: str, rng: random.Random) -> None:
    """One fault of the primary, the promotion under load, and the old primary's way back."""
    story, old, epoch = pair.story, pair.first, pair.epoch
    before = pair.clients(old)
    after: Clients | None = None
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
    await pair.until(old, whole=True, error=None, lag_messages=0)
    lost = await pair.judge(kept_until)
    kept_aside = sum(returned["put_aside"].values())
    if name not in LOSING and kept_aside < len(lost):
        story.fault(f"{name}: {len(lost)} are lost, and {kept_aside} put aside ({fenced})")
    pair.lost.update(lost)
    pair.aside += len(lost) if name not in LOSING else 0
    if story.seconds_behind > PROGRESS_S + SLOW_S:
        story.fault(f"{name}: progress is {story.seconds_behind:.2f} s behind")
    shutil.rmtree(old.data_path / "aside", ignore_errors=True)


async def _fenced(pair: Pair, old: Member) -> dict[str, Any]:
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
    await pair.until(pair.second, whole=True, error=None, lag_messages=0)
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
    rounds: int, network: Callable[[], Network], rng: random.Random, level: str = "write"
) -> Result:
    """Faults of pairs, so many together. Every second pair waits for the copy before an OK."""
    tally = _Tally()
    left, is_acked, done = rounds, True, True
    while left > 0 and done:
        with tempfile.TemporaryDirectory(prefix="penstock-copies-") as folder:
            pair = Pair(network(), Path(folder), Story(rng, is_acked=is_acked), level)
            done = await _series(pair, min(left, SERIES), rng, tally)
        tally.add(pair)
        left -= SERIES
        is_acked = not is_acked
    faults = ", ".join(f"{count} {name}" for name, count in sorted(tally.rounds.items()))
    return Result(f"a pair of nodes at `{level}`", f"{tally.rounds.total()} rounds: {faults}",
                  str(tally), tally.faults)  # fmt: skip


async def _series(pair: Pair, count: int, rng: random.Random, tally: _Tally) -> bool:
    """The rounds of one pair; False if none of them was begun."""
    is_any = False
    try:
        await pair.start()
        kinds: list[str] = []
        state = lambda: f"of this pair; {tally.rounds.total()} in all; {pair.story}"  # noqa: E731
        for _ in progress(count, state):
            kinds = kinds or rng.sample(KINDS, len(KINDS))
            name = kinds.pop()
            is_any = True
            run = _promotion if name in OF_PRIMARY else _trouble
            try:
                await run(pair, name, rng)
            except Exception as error:
                error.add_note(f"in a round: {name}")
                raise
            tally.rounds[name] += 1
        await pair.drain()
        missing = set(pair.story.ledger.lost(10**7)) - pair.lost
        if missing:
            pair.story.fault(f"never delivered: {sorted(missing)[:10]}, {len(missing)} in all")
    except Exception as error:
        pair.story.faults += [*getattr(error, "__notes__", ()), *explained(error)]
        pair.story.faults += [f"node {each.number}: {each.log()[-2000:]}" for each in pair.members]
    finally:
        await asyncio.to_thread(pair.close)
        await pair.network.close()
    return is_any
