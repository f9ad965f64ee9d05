"""Measures several nsqds of ours on one machine, beside one of them and one Go nsqd.

Publishers spread over the nodes. Consumers ask nsqlookupd for the nodes of the topic and connect to
each, as NSQ's consumers do. The same client processes load whatever is measured, which takes turns
(A B C A B C); the median of the rounds is shown, and below it the range of their rates.

    python bench/nodes.py [--nodes N] [--go-nsqd PATH] [--only NAME …] [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import clients
import payloads
from harness import SETTLE_S, Result, measure
from nsqd import ALL_IN_MEMORY
from report import OURS, Runs, Table, add_round, print_rounds, save
from scenarios import BATCH, RDY, TOPIC, Load
from wires import PLAIN

from penstock.nsq.client.lookup import lookup
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd

REGISTER_S_MAX = 30.0


@dataclass(frozen=True)
class Site:
    """Nodes at work, the nsqlookupd that they register with, and how many processes load them."""

    nodes: Sequence[Daemon]
    lookupd: Daemon
    loaders: int

    def in_turn(self) -> Iterator[Daemon]:
        """A node for each loading process."""
        return islice(cycle(self.nodes), self.loaders)

    def found(self, topic: str) -> list[str]:
        """Addresses of the topic's nodes, as nsqlookupd has them once all have registered it."""
        for _ in range(int(REGISTER_S_MAX / 0.01)):
            addresses = [node.tcp_address for node in lookup([self.lookupd.http], topic)]
            if len(addresses) == len(self.nodes):
                return addresses
            time.sleep(0.01)
        raise RuntimeError(f"nsqlookupd knows {addresses} of {len(self.nodes)} nodes")

    def measure(self, loaders: Sequence[Callable[..., clients.Share]]) -> Result:
        """Run the load against all nodes, whose CPU counts together."""
        return measure([node.pid for node in self.nodes], loaders)


@dataclass(frozen=True)
class Contender:
    """So many nodes of a program."""

    name: str
    program: list[str]
    flags: list[str]
    nodes: int

    @contextmanager
    def run(self, loaders: int) -> Iterator[Site]:
        """Fresh nodes. They are killed at the end: a graceful end may write a long backlog."""
        with run_nsqlookupd() as lookupd, ExitStack() as running:
            registered = f"--lookupd-tcp-address={lookupd.tcp}"
            nodes = [
                running.enter_context(
                    run_nsqd(*self.flags, registered, f"--node-id={number}", program=self.program)
                )
                for number in range(1, self.nodes + 1)
            ]
            time.sleep(SETTLE_S)
            yield Site(nodes, lookupd, loaders)
            for node in nodes:
                node.kill()


def batches(site: Site, load: Load) -> dict[str, Result]:
    """MPUB of 200, a connection a process, without a consumer; then the consumers drain it."""
    payload = PLAIN.prepare(payloads.mpub(TOPIC, payloads.json_bodies([load.size] * BATCH)))
    parts = clients.spread(load.messages // BATCH, site.loaders)
    published = site.measure([
        partial(clients.publish, node.tcp, PLAIN, payload, 1, BATCH, part)
        for node, part in zip(site.in_turn(), parts, strict=True)
    ])  # fmt: skip
    doors = [(address, "ch") for address in site.found(TOPIC)]
    consumer = partial(clients.consume, doors, PLAIN, TOPIC, RDY, load.messages // BATCH * BATCH,
                       tally=clients.Tally())  # fmt: skip
    return {"mpub 200": published, "consume": site.measure([consumer] * site.loaders)}


def singles(site: Site, load: Load, *, connections: int) -> dict[str, Result]:
    """PUB, each waiting for its OK, over so many connections in all."""
    payload = payloads.pub(TOPIC, payloads.json_bodies([load.size])[0])
    return {f"pub, {connections} connections": _asked(site, load, payload, connections, http=False)}


def posts(site: Site, load: Load) -> dict[str, Result]:
    """POST /pub on 16 keep-alive connections in all."""
    payload = payloads.http_pub(TOPIC, payloads.json_bodies([load.size])[0])
    return {"http /pub, 16 connections": _asked(site, load, payload, 16, http=True)}


def _asked(site: Site, load: Load, payload: bytes, connections: int, *, http: bool) -> Result:
    parts = clients.spread(connections, site.loaders)
    return site.measure([
        partial(clients.ask_repeatedly, node.http if http else node.tcp, payload, 1, http, part,
                load.seconds)
        for node, part in zip(site.in_turn(), parts, strict=True)
    ])  # fmt: skip


SCENARIOS: dict[str, Callable[[Site, Load], dict[str, Result]]] = {
    "batches": batches,
    "pub2": partial(singles, connections=2),
    "pub50": partial(singles, connections=50),
    "http": posts,
}


def run_scenario(
    name: str, contenders: Sequence[Contender], loaders: int, rounds: int, load: Load
) -> Runs:
    """All rounds of each measured part, by contender."""
    runs: Runs = {}
    for _ in range(rounds):
        for contender in contenders:
            with contender.run(loaders) as site:
                results = SCENARIOS[name](site, load)
            add_round(runs, contender.name, results)
    return runs


def find_contenders(args: argparse.Namespace) -> list[Contender]:
    """Ours with one node and with all of them, and Go's where it is at hand."""
    ours = [sys.executable, "-m", "penstock.cli.nsqd"]
    contenders = [Contender(OURS, ours, [], args.nodes), Contender("1 node", ours, [], 1)]
    go = args.go_nsqd or shutil.which("nsqd")
    if go and Path(go).resolve().parent != Path(sys.executable).parent:
        contenders.append(Contender("go", [go], [], 1))
        contenders.append(Contender("go, memory", [go], [ALL_IN_MEMORY], 1))
    return contenders


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=2, help="how many nsqds of ours (2)")
    parser.add_argument("--go-nsqd", help="a Go nsqd (default: nsqd on PATH)")
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="repeatable")
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
    contenders = find_contenders(args)
    load = Load(args.messages, args.seconds, args.size)
    table: Table = {}
    try:
        for name in args.only or SCENARIOS:
            runs = run_scenario(name, contenders, max(2, args.nodes), args.rounds, load)
            print_rounds(table, runs)
    finally:  # what was measured before a failure is of use
        save("nsqd-nodes", table, {"size": args.size, "nodes": args.nodes})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
