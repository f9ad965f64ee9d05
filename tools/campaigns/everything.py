"""Every kind of load on one node: NSQ's publishes, deferrals and dead letters; RocketMQ's sends,
transactions, delays and pops. All are cut off by the same kill, and all are checked afterwards.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final

from penstock.testing.ledger import Ledger
from tools.loads import load, pop_load, rocketmq_load, transaction_load
from tools.loads.mqbroker import Mqbroker

from .node import Node

FLAGS: Final = ("--max-attempts=3", "--max-bytes-per-file=4194304")
"""Messages that are requeued twice go to the dead letters, and segments end often."""
TIMEOUT: Final = "--msg-timeout=5s"
"""Consumers leave messages in flight, and the node is not always killed before they are counted."""
BATCH: Final = 400
"""Messages of an MPUB; a life is short, and most of it goes into small requests."""
PROPERTIES: Final = {
    "flushConsumerOffsetInterval": rocketmq_load.OFFSET_FLUSH_MS,
    "transactionTimeOut": 50, "transactionCheckInterval": 100, "transactionCheckMax": 10_000,
    "syncFlushTimeout": 600_000,
}  # fmt: skip


class Everything:
    """The loads, and what they were told over the lives of the node.

    A broker that is no node, such as Java's RocketMQ 4, gets sends, transactions and delays alone.
    """

    def __init__(self, node: Node | Mqbroker, rng: random.Random) -> None:
        self.node = node
        self._is_node = isinstance(node, Node)
        self.nsq = load.Load(Ledger(), rng, batch=BATCH)
        self.rocketmq = rocketmq_load.Load(node, rng)
        self.transactions = transaction_load.Load(node, rng)
        self.pops = pop_load.Load(node, rng)
        self._prepared = False
        self.lives = 0

    def move_to(self, node: Node) -> None:
        """Use another node on the same data path from now on."""
        self.node = self.rocketmq.broker = self.transactions.broker = self.pops.broker = node

    async def prepare(self) -> None:
        """Make RocketMQ's topics."""
        await self.rocketmq.make_topics()
        if self._is_node:
            await self.pops.make_topic()
        self._prepared = True

    async def run(self, seconds: float) -> None:
        """Load the node in every way, kill it, and let every client notice."""
        self.lives += 1
        async with asyncio.TaskGroup() as group:
            for client in self._clients():
                group.create_task(client)
            await asyncio.sleep(seconds)
            if self._is_node:
                await self.nsq.lived()
            await self.rocketmq.lived()
            await asyncio.to_thread(self.node.kill)

    async def work(self, seconds: float) -> None:
        """Load a node, which may refuse any request, for this time; it is not killed."""
        self.transactions.stopping.clear()
        clients = [asyncio.ensure_future(client) for client in self._clients()]
        await asyncio.sleep(seconds)
        self.transactions.stopping.set()
        for client in clients[:-1]:  # the last is the one of the transactions
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def endure(self, seconds: float) -> bool:
        """Load a node that may refuse, stall or die, then kill it; True if it was still running."""
        assert isinstance(self.node, Node)
        clients = [asyncio.ensure_future(client) for client in self._clients()]
        await asyncio.wait(clients, timeout=seconds)
        lived = self.node.is_running
        await asyncio.to_thread(self.node.kill)
        await asyncio.gather(*clients, return_exceptions=True)
        self.rocketmq.forget_durable()
        return lived

    def _clients(self) -> list[Coroutine[Any, Any, None]]:
        clients = self.rocketmq.clients()
        if isinstance(self.node, Node):
            clients += [*self.nsq.clients(self.node), *self.pops.clients()]
        return [*clients, asyncio.to_thread(self.transactions.work_until_killed)]

    async def check(self) -> None:
        """Check after a restart that RocketMQ's queues hold all earlier and newly sent messages."""
        if not self._prepared:
            await self.prepare()
        await self.rocketmq.check()

    async def settle(self) -> None:
        """Take out all that is left, and hold it against what was acknowledged."""
        if isinstance(self.node, Node):
            await asyncio.gather(self.nsq.drain(self.node), self.nsq.drain(self.node, b".dead"))
            await self.pops.drain()
        await self.rocketmq.check_all()
        await asyncio.to_thread(self._settle_transactions)

    def _settle_transactions(self) -> None:
        self.transactions.settle()
        self.transactions.check()

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged messages of all kinds."""
        ledgers = (self.nsq.ledger, self.rocketmq.ledger, self.pops.ledger)
        counted = sum(ledger.report().acknowledged for ledger in ledgers)
        return counted + len(self.transactions.begun) + len(self.transactions.delayed)

    def faults(self) -> list[str]:
        """A line for each kind of load that lost or invented messages."""
        ledgers = {
            "NSQ": self.nsq.ledger,
            "RocketMQ": self.rocketmq.ledger,
            "pop": self.pops.ledger,
        }
        found = []
        for name, ledger in ledgers.items():
            report = ledger.report()
            if report.lost or report.invented:
                found.append(f"{name}: {report}, the first lost: {ledger.lost()}")
        return found

    def __str__(self) -> str:
        return (
            f"NSQ {self.nsq.ledger.report().acknowledged}, "
            f"RocketMQ {self.rocketmq.ledger.report().acknowledged}, "
            f"popped {self.pops.ledger.report().acknowledged}, "
            f"transactions {len(self.transactions.begun)}, delayed {len(self.transactions.delayed)}"
        )
