"""RocketMQ's client while its servers are killed and its members come, go and die.

Every kind of producer and consumer is at work all the time, and each fault must leave this true:
what was acknowledged is handled by each group, a queue belongs to one member, no queue is handled
out of order where that is promised, and of transactions exactly the committed ones arrive. With the
jars of Java's client one of its consumers shares a group with ours.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tools.harness.rocketmq.programs import Servers, run_servers
from tools.harness.rocketmq.servers import QUICK

from .group_members import PAUSE_S, QUEUES, Feed, Group, Ledger, Looker, Member
from .kinds_of_sends import KINDS, QUESTIONS, TOPIC, Sends
from .report import Result, explained, progress

PLAIN, ORDERED, HALVES = "Plain", "Ordered", "Halves"
CONFIG: Final = replace(QUICK, send_msg_timeout=5.0, request_timeout=10.0)
CATCH_UP_S: Final = 240.0
"""Locks of a member that died in order last for a minute, as do routes of a killed broker."""
AWAY_S: Final = (0.0, 2.0)
ENDED_MS_MAX: Final = 6000
"""Brokers of 5.x note up to 3 s late that a transaction has ended. Until then they ask about it,
and deliver it once more.
"""
MEMBERS_MAX: Final = 4


class Scene:
    """Everybody at work over one name server and one broker."""

    def __init__(
        self, servers: Servers, folder: Path, pace_s: float, rng: random.Random, jars: Path | None
    ) -> None:
        address = servers.address
        self.servers = servers
        self.rng = rng
        self.feeds = {topic: Feed(address, CONFIG, topic, pace_s) for topic in (PLAIN, ORDERED)}
        self.groups = [
            Group("sharing", PLAIN, address, CONFIG, rng),
            Group("in-order", ORDERED, address, CONFIG, rng, orderly=True),
        ]
        self.lookers = [Looker(PLAIN, address, CONFIG) for _ in range(3)]
        self.ledger = Ledger(HALVES, address, CONFIG, rng)
        self.sends = Sends(address, CONFIG)
        if jars is not None:
            self.groups[0].add_java(jars, folder / "java")
        self.slowest_s = 0.0
        self._folder = folder
        self._working: list[asyncio.Task[None]] = []
        self._feeding: list[asyncio.Task[None]] = []
        """Those of them that send, but for the transactions."""

    def __str__(self) -> str:
        handled = sum(sum(group.handled.values()) for group in self.groups)
        return f"{self.acknowledged} acknowledged, {handled} handled"

    @property
    def acknowledged(self) -> int:
        fed = sum(feed.count for feed in self.feeds.values())
        return fed + len(self.ledger.decided) + self.sends.count

    async def begin(self) -> None:
        """Let all start, two members in each group."""
        for topic in (PLAIN, ORDERED, HALVES, TOPIC, QUESTIONS):
            self.servers.create_topic(topic, QUEUES)
        for group in self.groups:
            group.join()
            group.join()
            await group.join_java()
        broadcasting, polling, popping = self.lookers
        for work in (
            *(feed.run() for feed in self.feeds.values()), *self.sends.feeds(),
            *self.sends.readers(), self.ledger.run(),
            self.ledger.consume(), broadcasting.broadcast(self._folder), polling.poll(),
            popping.pop(),
        ):  # fmt: skip
            self._working.append(asyncio.create_task(work))
        self._feeding = self._working[: len(self.feeds) + len(KINDS)]

    async def until(self, state: Callable[[], bool], what: Callable[[], object]) -> None:
        """Wait for a state. Raises AssertionError when it does not come, or what ended a task."""
        began = time.monotonic()
        while not state():
            for task in self._working:
                if task.done():
                    task.result()
            assert time.monotonic() < began + CATCH_UP_S, f"not in {CATCH_UP_S:g} s: {what()}"
            await asyncio.sleep(PAUSE_S)
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    async def catch_up(self) -> None:
        """Wait until what is acknowledged by now has been seen by all who must."""
        counts = {topic: feed.count for topic, feed in self.feeds.items()}
        committed = self.ledger.committed
        consumers: list[Group | Looker] = [*self.groups, *self.lookers]
        for each in consumers:
            await self._until_it_has(each, counts[each.topic])
        await self.until(
            lambda: self.ledger.seen >= committed,
            lambda: f"transactions {committed - self.ledger.seen} arrive",
        )
        await self._until_sends_arrive()
        for group in self.groups:
            await self.until(group.is_shared, group.__str__)

    async def _until_sends_arrive(self) -> None:
        """Each kind of sends goes on, unless no more are sent, and its acknowledged ones arrive."""
        sends = self.sends
        before = sends.progress()
        for kind in KINDS:
            if self._feeding:
                await self.until(
                    lambda kind=kind: sends.progress()[kind] > before[kind],
                    lambda kind=kind: f"{kind} sends succeed again",
                )
            wanted = set(sends.acknowledged[kind])
            await self.until(
                lambda kind=kind, wanted=wanted: sends.seen[kind] >= wanted,
                lambda kind=kind: f"{kind} sends arrive: {sends.missing(kind)}",
            )

    async def _until_it_has(self, consumer: Group | Looker, count: int) -> None:
        await self.until(
            lambda: not consumer.missing(count),
            lambda: f"{consumer} lacks {consumer.missing(count)}",
        )

    async def dead_letters(self) -> None:
        """Wait until the dead letters are those that must be; others are faults."""
        (group, _), count = self.groups, self.feeds[PLAIN].count
        wanted = {number for number in range(count) if group.is_poison(number)}
        looker = Looker(f"%DLQ%{group.name}", self.servers.address, CONFIG)
        looking = asyncio.create_task(looker.poll("dead"))
        if wanted:
            await self.until(
                lambda: looker.seen >= wanted, lambda: f"dead letters {wanted - looker.seen}"
            )
        looking.cancel()
        await asyncio.wait([looking])
        if wrong := {number for number in looker.seen if not group.is_poison(number)}:
            group.faults.append(f"dead letters of messages that were handled: {wrong}")

    async def end(self) -> None:
        """Send no more, and let all see what there is."""
        self.ledger.is_sending = False
        feeding, self._feeding = self._feeding, []
        self._working = self._working[len(feeding) :]
        await _cancel(feeding)
        await self.catch_up()
        await self.dead_letters()
        for group in self.groups:
            await group.close()

    async def abandon(self) -> None:
        for group in self.groups:
            await group.lose_java()
        if self._working:
            await _cancel(self._working)

    # --- faults ----------------------------------------------------------------------------------

    async def kill_broker(self) -> None:
        await self._away(self.servers.broker.kill, self.servers.broker.start)

    async def kill_name_server(self) -> None:
        await self._away(self.servers.name_server.kill, self.servers.name_server.start)

    async def _away(self, kill: Callable[[], None], start: Callable[[], None]) -> None:
        kill()
        await asyncio.sleep(self.rng.uniform(*AWAY_S))
        start()
        await asyncio.to_thread(self.servers.wait)

    async def join(self) -> None:
        """One more in each group; that in order loses fewer, and has enough sooner."""
        for group in self.groups:
            if len(group.members) < MEMBERS_MAX:
                group.join()

    async def leave(self) -> None:
        for group in self.groups:
            await group.lose(Member.leave)

    async def die(self) -> None:
        """A member dies; one of the group in order costs its group a minute, so seldom."""
        group = self.groups[self.rng.random() < 0.1]
        await group.lose(Member.die)

    async def replace_java(self) -> None:
        """Java's member dies as well, and another one comes."""
        await self.groups[0].lose_java()
        await self.groups[0].join_java()

    async def die_in_a_transaction(self) -> None:
        self.ledger.die()

    def fault(self, number: int) -> Callable[[], Coroutine[Any, Any, None]]:
        """The faults in turn; members come where there are few, and go where there are many."""
        kinds = (
            self.kill_broker, self.join, self.die_in_a_transaction, self.kill_name_server,
            self.leave, self.die, *((self.replace_java,) if self.groups[0].java else ()),
        )  # fmt: skip
        kind = kinds[number % len(kinds)]
        fewest = min(len(group.members) for group in self.groups)
        if kind in (self.leave, self.die) and fewest < 2:
            return self.join
        return self.leave if kind == self.join and fewest >= MEMBERS_MAX else kind


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@asynccontextmanager
async def _scene(pace_s: float, rng: random.Random, jars: Path | None) -> AsyncIterator[Scene]:
    with tempfile.TemporaryDirectory(prefix="penstock-clients-") as folder:
        home = Path(folder)
        with run_servers(
            home / "servers", registerNameServerPeriod=10_000, transactionTimeOut=ENDED_MS_MAX
        ) as servers:
            scene = Scene(servers, home / "offsets", pace_s, rng, jars)
            try:
                await scene.begin()
                yield scene
            finally:
                await scene.abandon()


async def clients(
    rounds: int, rng: random.Random, pace_s: float = 0.005, jars: Path | None = None
) -> Result:
    """Cause this number of faults, and let all catch up after each.

    ``jars`` is a folder with those of Java's client, for a member of its.
    """
    faults: list[str] = []
    told = ""
    try:
        async with _scene(pace_s, rng, jars) as scene:
            await scene.catch_up()
            for number in progress(rounds, lambda: scene):
                await scene.fault(number - 1)()
                await scene.catch_up()
            await scene.end()
            faults += [fault for group in scene.groups for fault in group.faults]
            faults += [*scene.ledger.faults(), *scene.sends.faults]
            told = _told(scene)
    except Exception as error:
        faults += [*explained(error), *getattr(error, "__notes__", ())]
    return Result("RocketMQ's client in groups", f"{rounds} faults", told, faults)


def _told(scene: Scene) -> str:
    twice = sum(count - 1 for group in scene.groups for count in group.handled.values())
    kinds = "all kinds" if scene.lookers[-1].is_supported else "all kinds but POP"
    java = scene.groups[0].java
    shared = f"; {java.count} handled by Java's member" if java else ""
    return (
        f"{scene.acknowledged} acknowledged, seen by {kinds} of consumers; {twice} handled twice; "
        f"{len(scene.ledger.committed)} transactions; {scene.sends}{shared}; "
        f"longest wait {scene.slowest_s:.0f} s"
    )
