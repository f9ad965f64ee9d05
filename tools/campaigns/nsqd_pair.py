"""A primary nsqd and its followers, and what its topic and its channel must have."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any, Final

from penstock.log_api.log_client import LogClient

from .node import PROGRAM
from .nsqd_pair_clients import CHANNEL, TOPIC, NsqClients, NsqStory
from .pairs import WAIT_S, Member, Pair
from .wires import Network

PROGRESS_S: Final = 0.6
"""The longest time between two saves of progress, and one answer (docs/replication.md)."""
FLAGS: Final = (
    "--max-bytes-per-file=262144", "--retention-time=1000h", "--replicas-timeout=1s",
    "--msg-timeout=5s",
)  # fmt: skip
_BODY_AT: Final = 34


class NsqdPair(Pair):
    """A primary that is followed by another nsqd, or by two."""

    of = "nodes"
    seconds_behind_max = PROGRESS_S

    def __init__(
        self, network: Network, folder: Path, rng: random.Random, level: str, *, nodes: int,
        acked: int,
    ) -> None:  # fmt: skip
        self.story: NsqStory = NsqStory(rng, acked=acked)
        self._checked = 0
        super().__init__(network, folder, level, nodes)

    def _member(self, data: Path, home: Path, level: str) -> Member:
        flags = [*FLAGS, f"--data-path={data}", f"--durability={level}",
                 f"--replicas-acked={self.story.acked}",
                 f"--promote-before-hook={self.lease}"]  # fmt: skip
        return Member(PROGRAM, flags, data, home)

    def _introduce(self, member: Any) -> None:
        member.flags += self.network.flags(member.number)

    def _set_follow(self, member: Any, address: str) -> None:
        member.flags = [each for each in member.flags if not each.startswith("--follow=")]
        member.flags.append(f"--follow={address}")

    def clients(self, member: Any) -> NsqClients:
        """Clients of a node in the epoch that it is primary in."""
        return NsqClients(self.story, self.side(member))

    async def _ends(self, member: Any) -> list[int] | None:
        path = f"/log/offsets?topic={TOPIC.decode()}"
        status, answer = await self.ask(member, "GET", path)
        return [answer["queues"][0]["end"]] if status == 200 else None

    async def judge_all(self) -> None:
        """Hold the whole log, and all that was delivered, against all that was acknowledged."""
        self._checked = 0
        self.missing(await asyncio.to_thread(self._read))

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
