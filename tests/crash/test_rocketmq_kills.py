"""Whatever mqbroker acknowledged survives SIGKILL at its place in its queue, however often."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tools.loads.mqbroker import Mqbroker
from tools.loads.rocketmq_load import OFFSET_FLUSH_MS, Load

ROUNDS = int(os.environ.get("PENSTOCK_KILL_ROUNDS", "2"))
SEED = int(os.environ.get("PENSTOCK_KILL_SEED", "0")) or random.SystemRandom().getrandbits(32)


@pytest.mark.parametrize(
    ("flush", "rounds"), [("ASYNC_FLUSH", ROUNDS), ("SYNC_FLUSH", max(1, ROUNDS // 5))]
)
async def test_acknowledged_messages_survive_kills(
    flush: str, rounds: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    broker = Mqbroker(
        tmp_path, flushDiskType=flush, flushConsumerOffsetInterval=OFFSET_FLUSH_MS,
        syncFlushTimeout=600_000,
    )  # fmt: skip
    load = Load(broker, rng)
    try:
        broker.start()
        await load.make_topics()
        for _ in range(rounds):
            await load.run(rng.uniform(0.05, 0.35))
            broker.start()
            await load.check()
        await load.check_all()
        assert broker.stop() == 0
        broker.start()
        await load.check_all()
    except BaseException as error:
        error.add_note(f"its log:\n{broker.log}")
        raise
    finally:
        broker.kill()
    report = load.ledger.report()
    with capsys.disabled():
        print(f"\n{rounds} kills of mqbroker, {flush}, seed {SEED}: {report}")
    assert report.acknowledged > rounds
    assert report.lost == report.invented == report.duplicates == 0
