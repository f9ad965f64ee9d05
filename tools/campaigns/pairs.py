"""Nodes that copy one of them, whatever their dialect: started, promoted, asked."""

from __future__ import annotations

import asyncio
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
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
LEASE: Final = Path(__file__).parent / "lease-file.sh"
"""The command that lets one of several nodes become primary in an epoch."""


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
    """Two or three nodes, of which ``first`` is primary, and what their clients were told."""

    of: ClassVar[str]
    acked_max: ClassVar[int] = 2
    """The most copies that an OK can wait for."""
    seconds_behind_max: ClassVar[float]
    """The most that the progress of consumers may be behind after a promotion."""
    story: Story

    def __init__(self, network: Network, folder: Path, level: str, nodes: int) -> None:
        self.network = network
        self.lease = f"sh {LEASE} {folder / 'lease'}"
        self.members: list[Any] = []
        self.clocks: list[Clock] = []
        self.disks: list[Noted] = []
        for number in range(nodes):
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
        self.first, *self.followers = self.members
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
    async def _ends(self, member: Any) -> list[int] | None:
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
        """Start all, and wait until the followers have everything."""
        await self.network.open(self.members)
        for member in self.members:
            self._introduce(member)
        await asyncio.to_thread(self.first.start)
        for each in self.followers:
            await self.follow(each)

    async def start_following(self, member: Any) -> None:
        """Start a node as a follower of the first, with what it has."""
        self._set_follow(member, self.network.doors[self.first.number].peer)
        await asyncio.to_thread(member.start)

    async def follow(self, member: Any) -> dict[str, Any]:
        """Start a node, or start it again, as a follower of the first, and wait until it has
        everything.
        """
        await asyncio.to_thread(member.kill)
        await self.start_following(member)
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
        return await self._until(member, lambda said: said.items() >= wanted.items(), wanted)

    async def until_stepped_back(self, member: Any) -> dict[str, Any]:
        """Wait until an old primary has heard of the new one; one that has nothing alone follows
        it by itself then.
        """

        def holds(said: dict[str, Any]) -> bool:
            epochs = {"fenced": said.get("fenced_epoch"), "follower": said.get("epoch")}
            return epochs.get(said["role"]) == self.epoch

        return await self._until(
            member, holds, f"fenced by epoch {self.epoch}, or a follower in it"
        )

    async def _until(
        self, member: Any, holds: Callable[[dict[str, Any]], bool], wanted: object
    ) -> dict[str, Any]:
        end = time.monotonic() + WAIT_S
        while True:
            status, said = await self.ask(member, "GET", "/replication")
            if status == 200 and holds(said):
                return said
            if time.monotonic() > end:
                raise TimeoutError(f"node {member.number}: {said} instead of {wanted}\n"
                                   + member.log()[-2000:])  # fmt: skip
            await asyncio.sleep(0.05)

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
        """Wait until the followers' logs end where the primary's do, which takes no more now."""
        end = time.monotonic() + WAIT_S
        nodes = [self.first, *self.followers]
        while True:
            ends = [await self._ends(each) for each in nodes]
            if ends[0] is not None and all(each == ends[0] for each in ends):
                break
            if time.monotonic() > end:
                raise TimeoutError(f"the followers end at {ends[1:]}, the primary at {ends[0]}")
            await asyncio.sleep(0.05)
        for each in self.followers:
            await self.until(each, whole=True, error=None)

    # --- promotion -----------------------------------------------------------------------------

    async def promote(
        self, *heirs: Any, struck: float = float("inf"), force: bool = False
    ) -> float:
        """Promote one of these followers at once, which is the first then; the moment before which
        what was acknowledged must be there. What befell the primary did so at ``struck``.
        """
        copied = {each.number: (await self.ask(each, "GET", "/replication"))[1]["epoch"]
                  for each in heirs}  # fmt: skip
        measured = time.monotonic()
        furthest = await self._furthest()
        asked = time.monotonic()
        answers = await self._ask_to_promote(heirs, force=force)
        if all(answer.get("message") in ("LAGS", "NOT_WHOLE") for _, answer in answers):
            # Refused, as it may lose more than the bound: the operator decides to lose it.
            answers = await self._ask_to_promote(heirs[:1], force=True)
            heirs = heirs[:1]
        won = [(heir, answer) for heir, (status, answer) in zip(heirs, answers, strict=True)
               if status == 200]  # fmt: skip
        if len(won) != 1:
            raise AssertionError(f"{len(won)} promoted: {answers}")
        [(heir, answer)] = won
        # The lag ends when the primary was found gone, which was after what befell it.
        lag_s = answer["lag_seconds"]
        kept = min(asked, struck) - lag_s if lag_s is not None else 0.0
        if answer["whole"]:
            kept = time.monotonic()
        may_lose = force or not (answer["whole"] or self._waits_for_all)
        for epoch in range(copied[heir.number], self.epoch + 1):
            self.story.ended(epoch, min(struck, kept), may_lose=may_lose)
        others = [each for each in self.followers if each is not heir]
        self.first, self.followers = heir, [*others, self.first]
        if answer["epoch"] <= self.epoch:
            self.story.fault(f"epoch {answer['epoch']} after {self.epoch}")
        self.epoch = answer["epoch"]
        await self.until(self.first, role="primary", epoch=self.epoch)
        # Of several followers the one that is furthest has what any of them had. What another one
        # gets later, an old primary that is only stopped may still say OK to.
        is_furthest = self.story.acked > 0 and heir in furthest and not force
        return max(kept, measured) if is_furthest else kept

    async def _ask_to_promote(
        self, heirs: Sequence[Any], *, force: bool
    ) -> list[tuple[int, dict[str, Any]]]:
        path = f"/replication/promote{'?force=true' if force else ''}"
        return await asyncio.gather(*(self.ask(each, "POST", path) for each in heirs))

    @property
    def _waits_for_all(self) -> bool:
        """True if no OK is said before every follower has the message."""
        return self.story.acked == len(self.followers)

    async def _furthest(self) -> Sequence[Any]:
        """The followers that have all that any of them has."""
        ends = {each.number: await self._ends(each) or [] for each in self.followers}
        most = [max(each) for each in zip(*filter(None, ends.values()), strict=True)]
        return [each for each in self.followers if ends[each.number] == most]

    async def refuses_promotion(self, follower: Any, codes: Iterable[str]) -> None:
        """Ask a follower that lacks something to become primary, which it must not."""
        status, answer = await self.ask(follower, "POST", "/replication/promote")
        if status != 409 or answer["message"] not in codes:
            raise AssertionError(f"promoted, and not whole: {status} {answer}")

    async def until_told(self, follower: Any) -> None:
        """Wait until a follower of the old primary has heard of the new one, which it follows by
        itself soon where it can reach it.
        """
        epoch = f"epoch {self.epoch}"

        def holds(said: dict[str, Any]) -> bool:
            knows = epoch in str(said["error"]) or not said["history"]
            return said["epoch"] == self.epoch or (knows and not said["whole"])

        await self._until(follower, holds, f"a word of {epoch}")

    async def until_alone(self, follower: Any) -> dict[str, Any]:
        """Wait until a follower has taken in all that its dead primary sent; what it says then."""
        return await self._until(follower, lambda said: said["error"] is not None, "an error")

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
        losing = set() if self._waits_for_all else self.story.losing
        copied = [each for each in lost if self.story.oks[each].epoch not in losing]
        if copied:
            self.story.fault(f"acknowledged, copied, and lost: {copied[:10]}, {len(copied)} "
                             "in all")  # fmt: skip
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
