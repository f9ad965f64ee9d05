"""Measures a node without a copy, with one, and with one that every OK waits for.

All programs and clients share the processors of this machine, so the follower's work is in the
rates. The nodes take turns (A B C A B C); the median of the rounds is shown with the CPU time of
the primary, and below it the range of the rates.

    python bench/copies.py [--only NAME …] [--durability LEVEL] [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from harness import SETTLE_S, Result
from report import OURS, Runs, Table, add_round, print_rounds, save
from scenarios import Load, publish_and_consume, publish_single

from penstock.testing.daemons import Daemon, run_nsqd

COPIES = {OURS: 1, "followed": 0, "alone": None}
"""The followers that an OK waits for; None: there is none."""
SCENARIOS: dict[str, Callable[[Daemon, Load], dict[str, Result]]] = {
    "equal": partial(publish_and_consume, mixed=False),
    "pub1": partial(publish_single, connections=1),
    "pub2": partial(publish_single, connections=2),
    "pub50": partial(publish_single, connections=50),
}


@contextmanager
def node(acked: int | None, durability: str) -> Iterator[Daemon]:
    """A fresh primary, followed if so many copies are given."""
    level = f"--durability={durability}"
    with ExitStack() as running:
        primary = running.enter_context(run_nsqd(level, f"--replicas-acked={acked or 0}"))
        if acked is not None:
            follower = run_nsqd(level, f"--follow={primary.http}")
            stopped = running.enter_context(follower)
            running.callback(stopped.kill)
            _wait_until_followed(primary)
        time.sleep(SETTLE_S)
        yield primary
        primary.kill()


def _wait_until_followed(primary: Daemon) -> None:
    while True:
        with urllib.request.urlopen(f"http://{primary.http}/replication") as answer:
            status = json.load(answer)
        if status["followers"] and status.get("replicas_in_force", 0) == status.get(
            "replicas_acked", 0
        ):
            return
        time.sleep(0.05)


def run_scenario(name: str, durability: str, rounds: int, load: Load) -> Runs:
    """All rounds of each measured part, by node."""
    runs: Runs = {}
    for _ in range(rounds):
        for who, acked in COPIES.items():
            with node(acked, durability) as primary:
                results = SCENARIOS[name](primary, load)
            add_round(runs, who, results)
    return runs


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="repeatable")
    parser.add_argument("--durability", default="write", choices=("write", "fsync"))
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one short round")
    args = parser.parse_args(argv)
    if args.quick:
        args.messages, args.seconds, args.rounds = 200_000, 1.0, 1
    return args


def main(argv: list[str]) -> int:
    """Run what was asked for."""
    args = parse(argv)
    load = Load(args.messages, args.seconds, args.size)
    table: Table = {}
    try:
        for name in args.only or SCENARIOS:
            runs = run_scenario(name, args.durability, args.rounds, load)
            print_rounds(table, runs)
    finally:  # what was measured before a failure is of use
        save("nsqd-copies", table, {"size": args.size, "durability": args.durability})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
