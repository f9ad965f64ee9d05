"""Run a campaign: `python -m tools.campaigns kill 1000`; the last line is its row of a table."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import shlex
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from tools.harness.forking import start_server
from tools.harness.rocketmq import java_servers

from . import (
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
    unattended,
    wires,
)
from .mounts import enter_private_mounts
from .queries import BY_OFFSET
from .report import Result, end_at_interrupt

Campaign = Callable[[int, argparse.Namespace, random.Random], Coroutine[Any, Any, Result]]


async def _kill(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    if chosen.nsqd:
        return await kill.kills_of_nsqd(size, shlex.split(chosen.nsqd), rng)
    if chosen.mqbroker:
        return await kill.kills_of_mqbroker(size, shlex.split(chosen.mqbroker), rng)
    return await kill.kills(size, chosen.durability or "write", rng)


async def _power(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    return await power.power_cuts(size, chosen.durability or "fsync", rng)


async def _faults(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    return await faults.faults(size, rng)


async def _damage(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    return await damage.damage(size, rng)


async def _full(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    with full.tmpfs() as place:
        return await full.full_disks(size, place, rng)


async def _clocks(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    return await clocks.clock_jumps(size, clocks.Faketime, rng)


async def _soak(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    return await soak.soak(60.0 * size, 30.0, Path(chosen.table), rng)


async def _spark(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    names = chosen.queries.split(",") if chosen.queries else BY_OFFSET
    if not chosen.full:
        return await spark.kills_under_spark(size, rng, names, clustered=not chosen.alone)
    with full.tmpfs(CHECKPOINT_MB) as disk:
        return await spark.kills_under_spark(
            size, rng, names, clustered=not chosen.alone, disk=disk
        )


async def _clients(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    with tempfile.TemporaryDirectory(prefix="penstock-java-") as home:
        if chosen.java:
            os.environ |= java_servers.variables(Path(chosen.java), Path(home))
        jars = chosen.java or chosen.java_member
        return await clients.clients(size, rng, jars=Path(jars) if jars else None)


async def _copies(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    network = wires.Relays if chosen.relays else wires.Namespaces
    kinds = chosen.kinds.split(",") if chosen.kinds else ()
    return await copies.copies(size, network, rng, chosen.durability or "write", chosen.of, kinds,
                               nodes=chosen.nodes)  # fmt: skip


async def _unattended(size: int, chosen: argparse.Namespace, rng: random.Random) -> Result:
    return await unattended.unattended(size, rng, chosen.kinds.split(",") if chosen.kinds else ())


CAMPAIGNS: Final[dict[str, tuple[Campaign, int, str]]] = {
    "kill": (_kill, 1000, "kills"),
    "power": (_power, 200, "power cuts"),
    "faults": (_faults, 1000, "failing calls"),
    "damage": (_damage, 20, "flipped bits a file"),
    "full": (_full, 100, "times full"),
    "clocks": (_clocks, 100, "jumps"),
    "soak": (_soak, 120, "minutes"),
    "spark": (_spark, 120, "kills"),
    "clients": (_clients, 60, "faults"),
    "copies": (_copies, 200, "faults"),
    "unattended": (_unattended, 50, "faults"),
}
"""The campaigns, each with its usual size and the unit of it."""
MOUNTING: Final = ("power", "full")
CHECKPOINT_MB: Final = 32


def main() -> None:
    """Run the campaign named on the command line; exit with code 1 if it found a fault."""
    sizes = ", ".join(f"{name}: {size} {unit}" for name, (_, size, unit) in CAMPAIGNS.items())
    parser = argparse.ArgumentParser(prog="python -m tools.campaigns", epilog=sizes)
    parser.add_argument("name", choices=CAMPAIGNS)
    parser.add_argument("size", type=int, nargs="?", help="if not given, that below")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--durability", choices=("write", "fsync"))
    parser.add_argument("--nsqd", help="kill: another nsqd, Go's for one, by its words")
    parser.add_argument("--mqbroker", help="kill: another broker, Java's for one, by its words")
    parser.add_argument("--java", help="clients: a folder with jars of servers, and of a member")
    parser.add_argument("--java-member", help="clients: the same of a member alone")
    parser.add_argument("--queries", help="spark: some of them, separated by commas")
    parser.add_argument("--alone", action="store_true", help="spark: in one process, no cluster")
    parser.add_argument("--full", action="store_true",
                        help="spark: fill the disk of the archive's checkpoint as well, which "
                             "needs root")  # fmt: skip
    parser.add_argument("--relays", action="store_true",
                        help="copies: cut relays of this program, no network namespaces, which "
                             "need root")  # fmt: skip
    parser.add_argument("--of", choices=copies.PAIRS, default="nsqd",
                        help="copies: the program of the nodes")  # fmt: skip
    parser.add_argument("--nodes", type=int, choices=copies.KINDS, default=2,
                        help="copies: a primary and one follower, or two")  # fmt: skip
    parser.add_argument(
        "--kinds", help="copies, unattended: some of the faults, separated by commas"
    )
    table = Path(tempfile.gettempdir(), "penstock-soak.csv")
    parser.add_argument("--table", default=table, help="where soak writes its figures")
    chosen = parser.parse_args()
    if chosen.name in MOUNTING or chosen.full:
        enter_private_mounts()
    if chosen.name == "unattended" or (chosen.name == "copies" and not chosen.relays):
        wires.enter_private_network()
    print(f"seed {chosen.seed}", file=sys.stderr)
    for name in ("asyncio", "penstock.rocketmq.client"):  # at work with what is killed
        logging.getLogger(name).setLevel(logging.CRITICAL)
    start_server()
    end_at_interrupt()
    run, usual, _ = CAMPAIGNS[chosen.name]
    result = asyncio.run(run(chosen.size or usual, chosen, random.Random(chosen.seed)))
    print(result)
    sys.exit(1 if result.faults else 0)


if __name__ == "__main__":
    main()
