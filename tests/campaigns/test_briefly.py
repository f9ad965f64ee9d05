"""Each campaign for a few seconds; `make campaign-…` runs them at length (docs/trust.md)."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from tools.campaigns import (
    clients,
    clocks,
    copies,
    damage,
    faults,
    full,
    kill,
    power,
    soak,
    spark,
)
from tools.campaigns.report import Result
from tools.campaigns.wires import Relays

SEED = int(os.environ.get("PENSTOCK_KILL_SEED", "0")) or random.SystemRandom().getrandbits(32)

SLOW_S = 30.0
"""How late a machine may be that does other work: none of these is about time."""

pytestmark = [
    # A client that fails with its node leaves its socket to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def rng() -> random.Random:
    print(f"seed {SEED}")
    return random.Random(SEED)


def holds(result: Result) -> None:
    assert not result.faults, str(result)


@pytest.mark.parametrize("level", ["write", "fsync"])
async def test_everything_at_once_survives_kills(level: str, rng: random.Random) -> None:
    holds(await kill.kills(3, level, rng))


async def test_everything_at_once_survives_power_cuts(rng: random.Random) -> None:
    holds(await power.pretended_cuts(3, "fsync", rng))


async def test_without_syncs_the_same_cuts_lose_messages(rng: random.Random) -> None:
    """If nothing were lost here, the cuts would prove nothing."""
    for _ in range(10):
        if (await power.pretended_cuts(2, "memory", rng)).faults:
            return
    raise AssertionError("nothing was lost")


async def test_calls_that_fail_lose_nothing(rng: random.Random) -> None:
    holds(await faults.faults(5, rng))


async def test_damage_is_never_delivered_nor_silent(rng: random.Random) -> None:
    holds(await damage.damage(1, rng, cases_max=16))


async def test_a_full_disk_recovers(tmp_path: Path, rng: random.Random) -> None:
    holds(await full.full_disks(3, full.Pretended(tmp_path), rng))


async def test_clocks_may_jump(rng: random.Random) -> None:
    holds(await clocks.clock_jumps(4, clocks.Patched, rng))


async def test_churn_is_looked_at(tmp_path: Path, rng: random.Random) -> None:
    table = tmp_path / "soak.csv"
    result = await asyncio.wait_for(soak.soak(4.0, 1.0, table, rng), 120)
    assert len(table.read_text().splitlines()) >= 3
    assert "all found" in str(result)


async def test_queries_of_spark_survive_kills_of_all_they_need(rng: random.Random) -> None:
    # The query with the strongest promise, without a cluster, and a kill of a Python worker, the
    # first of the victims; tests/spark kills archives and channels, and has clusters.
    holds(await spark.kills_under_spark(1, rng, ["exact"], clustered=False))


async def test_a_pair_of_nodes_loses_nothing_that_both_had(rng: random.Random) -> None:
    holds(await copies.copies(2, Relays, rng, slow_s=SLOW_S))


async def test_three_nodes_lose_nothing_that_the_promoted_one_had(rng: random.Random) -> None:
    holds(await copies.copies(2, Relays, rng, slow_s=SLOW_S, nodes=3))


async def test_a_pair_of_brokers_loses_nothing_that_both_had(rng: random.Random) -> None:
    holds(await copies.copies(2, Relays, rng, program="mqbroker", slow_s=SLOW_S))


async def test_clients_survive_kills_of_their_servers_and_of_each_other(rng: random.Random) -> None:
    holds(await clients.clients(6, rng))  # a fault of each kind
