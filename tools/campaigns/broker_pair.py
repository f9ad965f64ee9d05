"""An mqbroker and its slaves, and what their queues must have."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from penstock.core.settings import java_properties
from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.messages import message
from penstock.rocketmq.protocol.messages.message import StoredMessage

from .broker_pair_clients import (
    DELAYED,
    GROUP,
    HALVES,
    QUEUES,
    TOPIC,
    BrokerClients,
    BrokerStory,
    is_rolled_back,
)
from .pairs import WAIT_S, Member, Pair
from .wires import Network

PROGRAM: Final = (sys.executable, "-m", "penstock.cli.mqbroker")
FLUSH_MS: Final = 200
OFFSETS_S: Final = FLUSH_MS / 1000 + 1.0 + 0.6
"""The file of offsets, the age of it that a master gives, and one answer (docs/rocketmq.md)."""
PROPERTIES: Final = {
    "fileReservedTime": 1000, "flushConsumerOffsetInterval": FLUSH_MS, "slaveTimeout": 1000,
    "messageDelayLevel": "1s 2s", "transactionTimeOut": 200, "transactionCheckInterval": 200,
    "transactionCheckMax": 10_000, "defaultTopicQueueNums": QUEUES,
}  # fmt: skip
PULLED_MAX: Final = 1000
_BEHIND: Final = {TOPIC: GROUP, "RMQ_SYS_TRANS_HALF_TOPIC": "CID_RMQ_SYS_TRANS"}
"""The group that has to be at the end of each of these topics."""


class BrokerMember(Member):
    """An mqbroker: ``tcp`` is RocketMQ's port, ``http`` the one for slaves."""

    program_name: ClassVar[str] = "mqbroker"

    def __init__(
        self, program: Sequence[str], properties: dict[str, object], data: Path, home: Path
    ) -> None:
        super().__init__(program, (), data, home)
        self.properties = properties
        self._config = home / "broker.properties"

    def command(self) -> list[str]:
        """The whole command line of the next start; its properties are in a file."""
        host = self.tcp.rpartition(":")[0]
        found = {"bindAddress": host, "listenPort": self.tcp_port, "haListenPort": self.http_port,
                 **self.properties}  # fmt: skip
        self._config.write_text(java_properties.dumps(found))
        return [*self.program, "-c", str(self._config)]

    def _find_addresses(self, found: dict[str, str]) -> bool:
        return "RocketMQ" in found


class BrokerPair(Pair):
    """A master that is copied by slaves; the answers of a ``SYNC_MASTER`` wait for one of them."""

    of = "mqbrokers"
    acked_max = 1
    seconds_behind_max = OFFSETS_S

    def __init__(
        self, network: Network, folder: Path, rng: random.Random, level: str, *, nodes: int,
        acked: int,
    ) -> None:  # fmt: skip
        self.story: BrokerStory = BrokerStory(rng, acked=acked)
        self._checked = dict.fromkeys(range(QUEUES), 0)
        super().__init__(network, folder, level, nodes)

    def _member(self, data: Path, home: Path, level: str) -> BrokerMember:
        role = "SYNC_MASTER" if self.story.acked else "ASYNC_MASTER"
        found = {**PROPERTIES, "brokerName": "broker-of-a-pair", "storePathRootDir": data,
                 "durability": level, "brokerRole": role, "promotedBrokerRole": role,
                 "promoteBeforeHook": self.lease}  # fmt: skip
        return BrokerMember(PROGRAM, found, data, home)

    def _introduce(self, member: Any) -> None:
        member.properties["brokerIP1"] = self.network.host(member.number)

    def _set_follow(self, member: Any, address: str) -> None:
        member.properties.update(
            brokerRole="SLAVE", brokerId=1 + member.number, haMasterAddress=address
        )

    async def start(self) -> None:
        """Start all, make the topics, and wait until the slaves have the table of them."""
        await super().start()
        clients = self.clients(self.first, are_sending=False)
        async with clients.connected() as connection:
            for topic in (TOPIC, DELAYED, HALVES):
                await connection.make_topic(topic, QUEUES)
        await clients.stop()
        end = time.monotonic() + WAIT_S
        for slave in self.followers:
            while not await asyncio.to_thread(self._has_topics, slave):
                if time.monotonic() > end:
                    raise TimeoutError(f"no table of topics\n{slave.log()[-2000:]}")
                await asyncio.sleep(0.05)

    def clients(self, member: Any, *, are_sending: bool = True) -> BrokerClients:
        """Clients of a node in the epoch that it is master in."""
        return BrokerClients(self.story, self.side(member), are_sending=are_sending)

    # --- asking --------------------------------------------------------------------------------

    def _link(self, member: Any) -> RemotingLink:
        return RemotingLink(self.network.doors[member.number].tcp, WAIT_S)

    def _has_topics(self, member: Any) -> bool:
        link = self._link(member)
        try:
            table = link.ask(RequestCode.GET_ALL_TOPIC_CONFIG, {}).body
        finally:
            link.close()
        return all(f'"{topic}"'.encode() in table for topic in (TOPIC, DELAYED, HALVES))

    async def _ends(self, member: Any) -> list[int] | None:
        return await asyncio.to_thread(self._ends_of, member)

    def _ends_of(self, member: Any) -> list[int] | None:
        link = self._link(member)
        try:
            return [_end(link, TOPIC, queue) for queue in range(QUEUES)]
        except OSError:
            return None
        finally:
            link.close()

    # --- judging -------------------------------------------------------------------------------

    def _read(self) -> set[int]:
        """The numbers of the messages in the parts of the queues that were not read before."""
        found: set[int] = set()
        link = self._link(self.first)
        try:
            for queue in range(QUEUES):
                for each in _pull(link, TOPIC, queue, self._checked[queue]):
                    self._checked[queue] = each.queue_offset + 1
                    number = self.story.found((queue, each.queue_offset), each.body)
                    if number in found:
                        self.story.fault(f"message {number} is in the log twice")
                    if number is not None:
                        found.add(number)
        finally:
            link.close()
        return found

    def _read_later(self) -> set[int]:
        """The numbers of delayed messages and transactions that have come."""
        found: set[int] = set()
        link = self._link(self.first)
        try:
            for topic in (DELAYED, HALVES):
                for queue in range(QUEUES):
                    for each in _pull(link, topic, queue, 0):
                        number = self.story.number_of(each.body)
                        if number is None:
                            continue
                        if topic == HALVES and is_rolled_back(number):
                            self.story.fault(f"transaction {number} came, and was rolled back")
                        found.add(number)
                        self.story.ledger.see(each.body)
        finally:
            link.close()
        return found

    async def judge_all(self) -> None:
        """Hold the whole log, and all that was delivered, against all that was acknowledged."""
        self._checked = dict.fromkeys(range(QUEUES), 0)
        found = await asyncio.to_thread(self._read)
        came = await asyncio.to_thread(self._read_later)
        self.lost |= {number for number, told in self.story.later.items()
                      if number not in came and self.story.is_late(told)}  # fmt: skip
        self.missing(found | came)

    async def drain(self) -> None:
        """Consume all, and wait until what is delayed or half has come."""
        clients = self.clients(self.first, are_sending=False)
        await clients.drain(self._until_drained())

    async def _until_drained(self) -> None:
        """Wait until all has come; what has not after a long time is judged."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            if await asyncio.to_thread(self._is_drained):
                return
            await asyncio.sleep(0.2)

    def _is_drained(self) -> bool:
        link = self._link(self.first)
        try:
            for topic, group in _BEHIND.items():
                for queue in range(QUEUES if topic == TOPIC else 1):
                    if _committed(link, group, topic, queue) < _end(link, topic, queue):
                        return False
        finally:
            link.close()
        came = self._read_later()
        return all(number in came or self.story.is_late(told)
                   for number, told in self.story.later.items())  # fmt: skip


def _end(link: RemotingLink, topic: str, queue: int) -> int:
    answer = link.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue})
    return answer.int64("offset")


def _committed(link: RemotingLink, group: str, topic: str, queue: int) -> int:
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue}
    answer = link.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
    return answer.int64("offset") if answer.code == 0 else 0


def _pull(link: RemotingLink, topic: str, queue: int, offset: int) -> list[StoredMessage]:
    """All messages of a queue from an offset on."""
    found: list[StoredMessage] = []
    while True:
        answer = link.ask(RequestCode.PULL_MESSAGE, {
            "consumerGroup": "judges", "topic": topic, "queueId": queue, "queueOffset": offset,
            "maxMsgNums": PULLED_MAX, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
            "subscription": "*", "subVersion": 0,
        })  # fmt: skip
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += message.decode_all(answer.body)
        offset = answer.int64("nextBeginOffset")
