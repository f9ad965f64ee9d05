"""Two nodes of which one copies the other, whatever their dialect: started, promoted, asked."""

from __future__ import annotations

import asyncio
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

from penstock.net.http.client.once import HttpError, request
from penstock.testing.daemons import Daemon
from tools.harness.forking import Circumstance, Forked

from .circumstances import Clock
from .pair_clients import PairClients
from .pair_story import Side, Story
from .stable import Noted
from .wires import Network

WAIT_S: Final = 120.0
AHEAD_S: Final = 2 * 24 * 3600
"""A time that is later than all to which a campaign sets a clock."""


class Member(Daemon):
    """A node of a pair, forked from a process that has imported the program."""

    number = 0
    program_name: ClassVar[str] = "nsqd"
    circumstances: Sequence[Circumstance] = ()

    def _launch(self, log: BinaryIO) -> Any:
        words = [self.program_name, *self.command()[len(self.program) :]]
        # Ctrl-C is for the campaign.
        circumstances = (os.setsid, *self.circumstances)
        return Forked(self.program_name, words, log, circumstances=circumstances)

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._running().send_signal(number)

    @property
    def is_running(self) -> bool:
        return self._process is not None


class Pair(ABC):
    """Two nodes, of which ``first`` is primary, and what their clients were told."""

    name: ClassVar[str]
    seconds_behind_max: ClassVar[float]
    """The most that the progress of consumers may be behind after a promotion."""
    story: Story

    def __init__(self, network: Network, folder: Path, level: str) -> None:
        self.network = network
        self.members: list[Any] = []
        self.clocks: list[Clock] = []
        self.disks: list[Noted] = []
        for number in range(2):
            home = folder / f"node{number}"
            data = home / "data"
            data.mkdir(parents=True)
            clock = Clock(home / "offset")
            clock.set(0)
            member = self._member(data, home, level)
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

    # --- parts of a dialect --------------------------------------------------------------------

    @abstractmethod
    def _member(self, data: Path, home: Path, level: str) -> Any:
        """A node that is not started yet."""

    @abstractmethod
    def _introduce(self, member: Any) -> None:
        """Let a node tell others its address."""

    @abstractmethod
    def _set_follow(self, member: Any, address: str) -> None:
        """Let a node follow the one at an address from its next start on."""

    @abstractmethod
    def clients(self, member: Any) -> PairClients:
        """Clients of a node in the epoch that it is primary in."""

    @abstractmethod
    async def _ends(self, member: Any) -> object:
        """The ends of a node's logs; None if it does not say them."""

    @abstractmethod
    def _read(self) -> set[int]:
        """The numbers of the messages in the part of the first's log that was not read before."""

    @abstractmethod
    async def judge_all(self) -> None:
        """Hold the whole log, and all that was delivered, against all that was acknowledged."""

    @abstractmethod
    async def drain(self) -> None:
        """Consume all that the first still owes."""

    # --- starting ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start both, and wait until the second has everything."""
        await self.network.open(self.members)
        for member in self.members:
            self._introduce(member)
        await asyncio.to_thread(self.first.start)
        await self.follow(self.second, self.first)

    async def follow(self, member: Any, primary: Any) -> dict[str, Any]:
        """Start a node as the follower of another, and wait until it has everything."""
        self._set_follow(member, self.network.doors[primary.number].peer)
        await asyncio.to_thread(member.start)
        return await self.until(member, role="follower", whole=True, error=None, epoch=self.epoch)

    async def cut_power(self, member: Any) -> None:
        """End a node, and what of its files was not synced."""
        await asyncio.to_thread(member.kill)
        await asyncio.to_thread(self.disks[member.number].cut_power, self.story.rng)

    def side(self, member: Any) -> Side:
        """A node in the epoch that it is primary in."""
        return Side(f"node {member.number}", self.network.doors[member.number], self.epoch)

    # --- asking --------------------------------------------------------------------------------

    async def ask(self, member: Any, method: str, path: str) -> tuple[int, Any]:
        """Status and JSON of an answer; 0 if there is none."""
        url = f"http://{self.network.doors[member.number].http}{path}"
        try:
            answer = await request(method, url, WAIT_S)
        except HttpError as error:
            return 0, {"message": str(error)}
        return answer.status, json.loads(answer.body)

    async def until(self, member: Any, **wanted: Any) -> dict[str, Any]:
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

    async def until_acknowledged(self) -> None:
        """Wait for an OK of this epoch that comes from now on."""
        now = time.monotonic()
        end = now + WAIT_S
        while not any(told.epoch == self.epoch and told.at > now
                      for told in self.story.oks.values()):  # fmt: skip
            if time.monotonic() > end:
                raise TimeoutError(f"no OK in epoch {self.epoch}\n{self.first.log()[-2000:]}")
            await asyncio.sleep(0.05)

    async def until_same(self) -> None:
        """Wait until the follower's logs end where the primary's do, which takes no more now."""
        end = time.monotonic() + WAIT_S
        while True:
            ends = [await self._ends(each) for each in (self.first, self.second)]
            if ends[0] == ends[1] is not None:
                break
            if time.monotonic() > end:
                raise TimeoutError(f"the follower ends at {ends[1]}, the primary at {ends[0]}")
            await asyncio.sleep(0.05)
        await self.until(self.second, whole=True, error=None)

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

    def set_clocks_ahead(self) -> None:
        """Set them to where all that was deferred is due: behind, it waits for its time again."""
        for clock in self.clocks:
            clock.set(AHEAD_S)

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

    def missing(self, found: set[int]) -> None:
        """Note what of all that was acknowledged, and not lost as the lag allows, is not there."""
        undelivered = found.intersection(self.story.ledger.lost(10**7))
        for what, some in (("not in the log", self.story.ever - self.lost - found),
                           ("in the log and not delivered", undelivered)):  # fmt: skip
            if some:
                self.story.fault(f"acknowledged, {what}: {sorted(some)[:10]}, {len(some)} in all")

    def close(self) -> None:
        for member in self.members:
            member.kill()
