"""However often mqbroker is killed: no transaction ends both ways, and nothing is lost."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tools.loads.mqbroker import Mqbroker
from tools.loads.transaction_load import Load

ROUNDS = int(os.environ.get("PENSTOCK_KILL_ROUNDS", "2"))
SEED = int(os.environ.get("PENSTOCK_KILL_SEED", "0")) or random.SystemRandom().getrandbits(32)


@pytest.mark.parametrize(
    ("flush", "rounds"), [("ASYNC_FLUSH", ROUNDS), ("SYNC_FLUSH", max(1, ROUNDS // 4))]
)
def test_transactions_and_delays_survive_kills(
    flush: str, rounds: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    broker = Mqbroker(
        tmp_path, flushDiskType=flush, transactionTimeOut=50, transactionCheckInterval=100,
        transactionCheckMax=10_000, syncFlushTimeout=600_000,
    )  # fmt: skip
    load = Load(broker, rng)
    try:
        for _ in range(rounds):
            broker.start()
            load.run(rng.uniform(0.1, 1.2))
        broker.start()
        load.settle()
        found = load.check()
        assert broker.stop() == 0
    finally:
        broker.kill()
    with capsys.disabled():
        print(f"\n{rounds} kills of mqbroker, {flush}, seed {SEED}: {found}")
    assert len(load.begun) > rounds
