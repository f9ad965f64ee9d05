"""Spark's queries while driver, executors, sources and sinks are killed in turn: what promises to
be exact is exact, and nothing is missing anywhere.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq

import penstock.arrow
from penstock.net.http.client.once import request
from penstock.spark.pipelines.spec import ARROW, SPARK
from penstock.testing.daemons import Daemon, MqBroker, run_mqbroker, run_mqnamesrv
from penstock.testing.ledger import Ledger
from tools.loads import load
from tools.loads.rocketmq_client import Connection

from .driver import EXECUTOR, WORKER, Driver
from .feeds import QUEUES, Feed, NsqFeed, RocketmqFeed
from .full import Tmpfs
from .node import Node, run_node
from .queries import (
    ARCHIVE,
    ARCHIVES,
    BY_OFFSET,
    CHANNEL,
    COPIES,
    NSQ,
    PLACES,
    QUERIES,
    ROCKETMQ,
    checkpoint,
    exported,
)
from .report import Result, explained, progress, say

FLAGS: Final = ("--max-bytes-per-file=4194304",)
MSG_TIMEOUT: Final = "--msg-timeout=3s"
"""Of the source: what was in flight to a driver that is killed comes again to the next one."""
CALM_S_MAX: Final = 1.0
"""Longest time from the moment when all queries get on to the next kill."""
DOWN_S_MAX: Final = 2.0
PROGRESS_S_MAX: Final = 1500.0
STARTS_MAX: Final = 6
"""How often the driver is started again until all queries get on."""
POLL_S: Final = 0.1
LOSS: Final = ("failOnDataLoss", "is lost", "another query", "set aside")
"""Words of errors that no kill may cause; others only end the query, which is started again."""


class Attack:
    """The programs, and what befalls them."""

    def __init__(
        self,
        stack: ExitStack,
        folder: Path,
        rng: random.Random,
        names: Sequence[str],
        *,
        clustered: bool,
        disk: Tmpfs | None = None,
    ) -> None:
        self._rng = rng
        self._queries = {name: QUERIES[name] for name in names}
        self._folder = folder
        self.source = stack.enter_context(run_node(*FLAGS, MSG_TIMEOUT))
        self.sinks = [stack.enter_context(run_node(*FLAGS)) for _ in range(2)]
        self.rocketmq = _run_rocketmq(stack) if any(map(_is_rocketmqs, self._queries)) else None
        self.driver = Driver(folder, names, clustered=clustered)
        stack.callback(self.driver.kill)
        self._disk = disk
        self._places: dict[str, Any] = {
            "queries": list(names),
            "writer": SPARK,
            "log": _place("nsq", nsqd_http_address=self.source.http),
            CHANNEL: _place("nsq", nsqd_tcp_address=self.source.tcp),
            "sinks": {"nsq": {"nsqd_http_address": ",".join(node.http for node in self.sinks)}},
        }
        if self.rocketmq is not None:
            broker = {"nsqd_http_address": self.rocketmq.broker.http}
            self._places["broker's log"] = _place("rocketmq", **broker)
            self._places["broker"] = _place("rocketmq", namesrvAddr=self.rocketmq.address)
            self._places["sinks"]["rocketmq"] = broker
        self._write_places()
        self.victims: dict[str, Callable[[], Awaitable[None]]] = {
            "executor": lambda: self._kill_below(EXECUTOR),
            "worker": lambda: self._kill_below(WORKER),
            "source": lambda: self._kill_daemon(self.source),
            "driver": self._kill_driver,
            "sink": lambda: self._kill_daemon(self._rng.choice(self.sinks)),
        }  # fmt: skip
        if self.rocketmq is not None:
            broker_ = self.rocketmq.broker
            self.victims["mqbroker"] = lambda: self._kill_daemon(broker_)
        if ARCHIVE in self._queries:
            self.victims["checkpoint"] = self._lose_checkpoint
        if disk is not None:
            disk.folder.mkdir()
            checkpoint(folder, ARCHIVE).symlink_to(disk.folder)
            self.victims["disk of the checkpoint"] = lambda: self._fill(disk)
        if not clustered:
            del self.victims["executor"]
        if not any(query.sink == "nsq" for query in self._queries.values()):
            del self.victims["sink"]
        self.kills: Counter[str] = Counter()
        self.in_batch: Counter[tuple[str, str]] = Counter()
        """Kills, by victim and query, that met it between the plan of a batch and its commit."""
        self.faults: list[str] = []

    async def prepare(self) -> None:
        """Make the topics, with a channel that keeps what is written."""
        for node, topic in [(self.source, NSQ), *((n, t) for n in self.sinks for t in COPIES)]:
            await _post(node, f"/topic/create?topic={topic}")
            await _post(node, f"/channel/create?topic={topic}&channel=ch")
        for name in (name for name, each in self._queries.items() if each.place == CHANNEL):
            await _post(self.source, f"/channel/create?topic={NSQ}&channel={name}")
        if self.rocketmq is None:
            return
        connection = await Connection.open(self.rocketmq.broker.port)
        for topic in (ROCKETMQ, *(n for n, each in QUERIES.items() if each.sink == "rocketmq")):
            await connection.make_topic(topic, QUEUES)
        connection.close()

    async def get_on(self) -> None:
        """Wait until each query has committed a batch from now on; start the driver again if it has
        ended.
        """
        before = self.driver.batches("commits")
        starts = 0
        async with asyncio.timeout(PROGRESS_S_MAX):
            while any(
                last <= before[name] for name, last in self.driver.batches("commits").items()
            ):
                if not self.driver.is_running:
                    starts += 1
                    assert starts <= STARTS_MAX, (
                        f"the driver does not run:\n{self.driver.log[-3000:]}"
                    )
                    self.driver.start()
                await asyncio.sleep(POLL_S)

    async def strike(self, victim: str) -> None:
        """Kill this one, at a moment by chance, and start it again."""
        await asyncio.sleep(self._rng.uniform(0, CALM_S_MAX))
        planned, done = self.driver.batches("offsets"), self.driver.batches("commits")
        self.in_batch.update((victim, name) for name in self._queries if planned[name] > done[name])
        await self.victims[victim]()
        self.kills[victim] += 1

    async def _kill_driver(self) -> None:
        await asyncio.to_thread(self.driver.kill)
        self.driver.start()

    def carry_over(self) -> None:
        """From the next start on, Arrow writes what Spark's writer began."""
        self._places["writer"] = ARROW
        self._write_places()

    def _write_places(self) -> None:
        (self._folder / PLACES).write_text(json.dumps(self._places))

    async def _lose_checkpoint(self) -> None:
        """Kill the driver and delete the archive's checkpoint; its names say what is there."""
        await asyncio.to_thread(self.driver.kill)
        for path in checkpoint(self._folder, ARCHIVE).iterdir():
            await asyncio.to_thread(shutil.rmtree if path.is_dir() else os.remove, path)
        self.driver.start()

    async def _fill(self, disk: Tmpfs) -> None:
        """Fill the disk of the archive's checkpoint until the query has failed on it."""
        failed = len(self.driver.failures())
        disk.fill()
        async with asyncio.timeout(PROGRESS_S_MAX):
            while self.driver.is_running and len(self.driver.failures()) == failed:
                await asyncio.sleep(POLL_S)
                disk.fill()  # what Spark has removed is room
        disk.free()

    async def _kill_below(self, part: bytes) -> None:
        async with asyncio.timeout(PROGRESS_S_MAX):
            while self.driver.is_running:
                if self.driver.kill_below(part, self._rng):
                    return
                await asyncio.sleep(POLL_S)

    async def _kill_daemon(self, daemon: Daemon) -> None:
        await asyncio.to_thread(daemon.kill)
        await asyncio.sleep(self._rng.uniform(0, DOWN_S_MAX))
        await asyncio.to_thread(daemon.start)

    async def cut_finish_short(self) -> None:
        """Kill the driver while it reads what is left, as soon as a query gets on."""
        await asyncio.to_thread(self.driver.kill)
        before = self.driver.batches("commits")
        self.driver.start("finish")
        async with asyncio.timeout(PROGRESS_S_MAX):
            while self.driver.batches("commits") == before:
                if not self.driver.is_running:
                    break
                await asyncio.sleep(POLL_S)
        await asyncio.to_thread(self.driver.kill)
        self.kills["driver at the end"] += 1

    async def check(self, feeds: dict[str, Feed]) -> dict[str, int]:
        """Read all there is, and hold each query against the ledger; the rows of each."""
        await asyncio.to_thread(self.driver.kill)
        self.faults += [
            line for line in self.driver.failures() if any(word in line for word in LOSS)
        ]
        await asyncio.to_thread(self.driver.finish)
        rows = {}
        for name, query in self._queries.items():
            ledger = copy.deepcopy(feeds[query.topic].ledger)
            await self._read(name, ledger)
            report = ledger.report()
            rows[name] = report.seen + report.duplicates
            missing = await feeds[query.topic].stored() - report.seen
            doubled = report.duplicates if query.exact else 0
            if missing or doubled or report.lost or report.invented:
                self.faults.append(f"{name}: {missing} of those stored are missing; {report}")
        return rows

    async def _read(self, name: str, ledger: Ledger) -> None:
        if name in ARCHIVES:
            table = await asyncio.to_thread(pq.read_table, exported(self._folder, name))
            _see(ledger, table.to_batches())
        elif QUERIES[name].sink == "rocketmq" and self.rocketmq is not None:
            where = {"format": "rocketmq", "nsqd_http_address": self.rocketmq.broker.http}
            _see(ledger, penstock.arrow.read(name, columns=["body"], **where))
        elif QUERIES[name].exact:  # as a consumer gets them
            drained = load.Load(ledger, self._rng, topic=name)
            await asyncio.gather(*map(drained.drain, self.sinks))
        else:
            addresses = [node.http for node in self.sinks]
            _see(ledger, penstock.arrow.read(name, columns=["body"], nsqd_http_address=addresses))


class _RocketMQ(NamedTuple):
    """A broker and the address of its name server."""

    broker: MqBroker
    address: str


def _run_rocketmq(stack: ExitStack) -> _RocketMQ:
    namesrv = stack.enter_context(run_mqnamesrv())
    broker = stack.enter_context(run_mqbroker(name_server=namesrv.rocketmq))
    return _RocketMQ(broker, namesrv.rocketmq)


def _is_rocketmqs(name: str) -> bool:
    """True for a query that reads or writes there."""
    return QUERIES[name].topic == ROCKETMQ or QUERIES[name].sink == "rocketmq"


def _place(format: str, **options: str) -> dict[str, Any]:
    return {"format": format, "options": options}


def _see(ledger: Ledger, batches: Iterable[Any]) -> None:
    for batch in batches:
        for body in batch.column("body").to_pylist():
            ledger.see(body)


async def _post(node: Node, path: str) -> None:
    answer = await request("POST", f"http://{node.http}{path}", 60.0)
    assert answer.status == 200, (path, answer.status, answer.body)


async def kills_under_spark(
    rounds: int,
    rng: random.Random,
    names: Sequence[str] = BY_OFFSET,
    *,
    clustered: bool = True,
    disk: Tmpfs | None = None,
) -> Result:
    """Kill one of the programs each round, in turn, while producers and queries go on.

    Without a cluster, the executor is in the driver's JVM and is not killed by itself.
    """
    found: list[str] = []
    rows: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as name, ExitStack() as stack:
        attack = Attack(stack, Path(name), rng, names, clustered=clustered, disk=disk)
        feeds: dict[str, Feed] = {NSQ: NsqFeed(attack.source, NSQ, rng)}
        if attack.rocketmq is not None:
            feeds[ROCKETMQ] = RocketmqFeed(attack.rocketmq.broker, ROCKETMQ, rng)
        try:
            await attack.prepare()
            await _rounds(attack, feeds, rounds)
            if rounds > 1:
                await attack.cut_finish_short()
            rows = await attack.check(feeds)
        except Exception as error:
            found = explained(error)
        found += attack.faults
        failures = len(attack.driver.failures())
    say(in_mid_batch(attack.in_batch, names))
    acknowledged = sum(feed.ledger.report().acknowledged for feed in feeds.values())
    return Result(
        "kills under Spark's queries", f"{attack.kills.total()} kills ({_counts(attack.kills)})",
        f"{acknowledged} acknowledged; rows: {_counts(rows)}; "
        f"{failures} times a query failed and was started again", found,
    )  # fmt: skip


async def _rounds(attack: Attack, feeds: dict[str, Feed], rounds: int) -> None:
    victims = list(attack.victims)
    producers = [asyncio.ensure_future(feed.run()) for feed in feeds.values()]
    try:
        for number in progress(rounds, lambda: _counts(attack.kills)):
            if number == 1 + rounds // 4:
                attack.carry_over()
            await attack.get_on()
            await attack.strike(victims[(number - 1) % len(victims)])
        await attack.get_on()
    finally:
        for producer in producers:
            producer.cancel()
        ends = await asyncio.gather(*producers, return_exceptions=True)
    attack.faults += [line for end in ends if isinstance(end, Exception) for line in explained(end)]


def in_mid_batch(hits: Mapping[tuple[str, str], int], names: Sequence[str]) -> str:
    """A table of how many kills met each query in the middle of a batch, by who was killed."""
    rows = [["killed", *names]]
    for victim in sorted({victim for victim, _ in hits}):
        rows += [[victim, *(str(hits.get((victim, name), 0)) for name in names)]]
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _counts(counted: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counted.items())
