"""Whatever nsqd acknowledged survives SIGKILL, at any moment, as often as it happens."""

from __future__ import annotations

import os
import random

import pytest

from penstock.testing.daemons import run_nsqd
from penstock.testing.ledger import Ledger
from tools.loads.load import Load

ROUNDS = int(os.environ.get("PENSTOCK_KILL_ROUNDS", "3"))
SEED = int(os.environ.get("PENSTOCK_KILL_SEED", "0")) or random.SystemRandom().getrandbits(32)


@pytest.mark.parametrize(("level", "rounds"), [("write", ROUNDS), ("fsync", max(1, ROUNDS // 5))])
async def test_acknowledged_messages_survive_kills(
    level: str, rounds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    ledger = Ledger()
    load = Load(ledger, rng)
    flags = [] if level == "write" else [f"--durability={level}"]  # Go's nsqd knows no such flag
    with run_nsqd(*flags) as daemon:
        for _ in range(rounds):
            await load.run(daemon, rng.uniform(0.05, 0.35))
            daemon.start()
        await load.drain(daemon)
    report = ledger.report()
    with capsys.disabled():
        print(f"\n{rounds} kills at level {level}, seed {SEED}: {report}")
    assert report.acknowledged > rounds
    assert report.lost == 0, ledger.lost()
    assert report.invented == 0
