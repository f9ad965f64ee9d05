"""``kill -9`` under every kind of load: all acknowledged messages are there, and no others."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from penstock.testing.daemons import run_nsqd
from penstock.testing.ledger import Ledger
from tools.harness.rocketmq.programs import take_ports
from tools.loads import load
from tools.loads.mqbroker import Mqbroker

from .everything import BATCH, FLAGS, PROPERTIES, Everything
from .node import run_node
from .report import Result, explained, progress

LIFE_S = (0.2, 0.6)
PATIENT = dict.fromkeys(
    ("waitTimeMillsInSendQueue", "waitTimeMillsInPullQueue", "waitTimeMillsInHeartbeatQueue",
     "waitTimeMillsInTransactionQueue", "osPageCacheBusyTimeOutMills"), 60_000
)  # fmt: skip
"""Java's broker refuses what has waited for long, as it does on a busy machine."""
CHECKED_EVERY = 5
"""Lives between two checks of RocketMQ's queues; each reads the messages stored since the last."""


async def kills_of_nsqd(rounds: int, program: Sequence[str], rng: random.Random) -> Result:
    """The same with NSQ's load alone, of an nsqd given by its words."""
    ledger = Ledger()
    nsq = load.Load(ledger, rng, batch=BATCH)
    with run_nsqd(*program[1:], program=program[0]) as daemon:
        for _ in progress(rounds, ledger.report):
            await nsq.run(daemon, rng.uniform(*LIFE_S))
            daemon.start()
        await nsq.drain(daemon)
    report = ledger.report()
    faults = [str(report)] if report.lost or report.invented else []
    return Result(f"kill -9 of {' '.join(program)}", f"{rounds} kills",
                  f"{report.acknowledged} acknowledged, {report.lost} lost", faults)  # fmt: skip


async def kills_of_mqbroker(rounds: int, program: Sequence[str], rng: random.Random) -> Result:
    """The same with RocketMQ's sends, transactions and delays alone, of a broker given by its
    words.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-kill-") as folder:
        store = Path(folder, "store")
        broker = Mqbroker(
            Path(folder), program, **PROPERTIES,
            listenPort=take_ports(4) + 2,  # a broker takes one two below and one above
            storePathCommitLog=store / "commitlog", mappedFileSizeCommitLog=64 << 20, **PATIENT,
        )  # fmt: skip
        loads = Everything(broker, rng)
        loads.rocketmq.keeps_order = False
        faults: list[str] = []
        try:
            broker.start()
            await loads.prepare()
            for _ in progress(rounds, lambda: loads):
                await loads.run(rng.uniform(*LIFE_S))
                broker.start()
                await loads.check()
            await loads.settle()
            faults = loads.faults()
        except Exception as error:
            faults = explained(error)
        finally:
            broker.kill()
    return Result(f"kill -9 of {program[0]}", f"{rounds} kills",
                  f"{loads.acknowledged} acknowledged ({loads})", faults)  # fmt: skip


async def kills(rounds: int, level: str, rng: random.Random) -> Result:
    """Run a node this number of times under load, each time until SIGKILL."""
    flags = (*FLAGS, f"--durability={level}")
    with run_node(*flags, properties=PROPERTIES) as node:
        everything = Everything(node, rng)
        await everything.prepare()
        for number in progress(rounds, lambda: everything):
            await everything.run(rng.uniform(*LIFE_S))
            node.start()
            if number % CHECKED_EVERY == 0:
                await everything.check()
        await everything.check()
        await everything.settle()
        assert node.stop() == 0
    return Result(
        f"kill -9 at `{level}`", f"{everything.lives} kills",
        f"{everything.acknowledged} acknowledged ({everything})", everything.faults(),
    )  # fmt: skip
