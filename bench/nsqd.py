"""Measures our nsqd, and a Go nsqd beside it where one is at hand.

Each scenario runs on a fresh daemon, the programs taking turns (A B A B); the median of the rounds
is shown with its server CPU per message and peak memory, and below it the range of their rates. The
Go nsqd runs twice: with its default flags, and with everything in memory.

    python bench/nsqd.py [--go-nsqd PATH] [--only NAME …] [--quick]
    python bench/nsqd.py --backlog 10000000       a backlog, its memory, and the way back
    python bench/nsqd.py --bench-writer PATH --bench-reader PATH      NSQ's own clients as well
    python bench/nsqd.py --also 3.13=PATH         an nsqd of ours of another interpreter or version
"""

from __future__ import annotations

import argparse
import http.client
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from harness import SETTLE_S, Result, peak_mb, server_cpu_s
from report import OURS, Runs, Table, add_round, keep, named, print_part, print_rounds, save
from scenarios import RDY, SCENARIOS, TOPIC, Load

from penstock.testing.daemons import Daemon, run_nsqd

ALL_IN_MEMORY = "--mem-queue-size=100000000"
START_RUNS = 5


@dataclass(frozen=True)
class Server:
    """A program under test and its flags."""

    name: str
    program: list[str]
    flags: list[str]

    @contextmanager
    def run(self, *more_flags: str) -> Iterator[Daemon]:
        """A fresh daemon. It is killed at the end: a graceful end may write a long backlog."""
        with run_nsqd(*self.flags, *more_flags, program=self.program) as daemon:
            time.sleep(SETTLE_S)
            yield daemon
            daemon.kill()


def run_scenarios(
    table: Table, servers: list[Server], names: list[str], rounds: int, load: Load
) -> None:
    """Puts the median of the rounds of each part into the table."""
    with tempfile.TemporaryDirectory(prefix="bench-nsqd-") as folder:
        certificate = make_certificate(Path(folder))
        for name in names:
            scenario = SCENARIOS[name]
            flags = certificate if scenario.tls else []
            runs: Runs = {}
            for _ in range(rounds):
                for server in servers:
                    with server.run(*flags) as daemon:
                        results = scenario.run(daemon, load)
                    add_round(runs, server.name, results)
            print_rounds(table, runs)


def make_certificate(folder: Path) -> list[str]:
    """A certificate for 127.0.0.1 in this folder, as flags of nsqd."""
    certificate = trustme.CA().issue_cert("127.0.0.1")
    chain, key = folder / "certificate.pem", folder / "key.pem"
    chain.write_bytes(b"".join(pem.bytes() for pem in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(key)
    return [f"--tls-cert={chain}", f"--tls-key={key}"]


def start_times(server: Server) -> dict[str, float]:
    """Seconds from exec to the first answer of /ping, those of CPU in them, and seconds for
    --version; medians.
    """
    ping, cpu, version = [], [], []
    for _ in range(START_RUNS):
        elapsed, used = _time_to_ping(server)
        ping.append(elapsed)
        cpu.append(used)
        start = time.monotonic()
        subprocess.run([*server.program, "--version"], check=True, capture_output=True)
        version.append(time.monotonic() - start)
    seconds = {"ping_s": ping, "ping_cpu_s": cpu, "version_s": version}
    return {name: statistics.median(each) for name, each in seconds.items()}


def _time_to_ping(server: Server) -> tuple[float, float]:
    """A first start finds free ports; the second one, on those ports, is timed."""
    with server.run() as daemon:
        daemon.kill()
        start = time.monotonic()
        process = subprocess.Popen(daemon.command(), stderr=subprocess.DEVNULL)
        try:
            while not _pings(daemon.http_port):
                time.sleep(0.001)
            return time.monotonic() - start, server_cpu_s(process.pid)
        finally:
            process.kill()
            process.wait()


def _pings(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/ping")
        return connection.getresponse().read() == b"OK"
    except OSError:
        return False
    finally:
        connection.close()


def run_backlog(server: Server, load: Load) -> dict[str, Result]:
    """A backlog published with no consumer, then drained; the peak memory tells its cost."""
    with server.run() as daemon:
        return {
            name.replace("equal", f"{load.messages:,}"): result
            for name, result in SCENARIOS["equal"].run(daemon, load).items()
        }


def run_tools(
    server: Server, writer: str, reader: str, seconds: float, size: int
) -> dict[str, Result]:
    """NSQ's own bench clients, for a cross-check: messages in a given time."""
    results = {}
    with server.run() as daemon:
        for part, topic, tool, more in (
            ("bench_writer, 1", f"{TOPIC}1", writer, [f"-size={size}", "-batch-size=1"]),
            ("bench_writer", TOPIC, writer, [f"-size={size}", "-batch-size=200"]),
            ("bench_reader", TOPIC, reader, [f"-rdy={RDY}"]),
        ):
            args = [f"-nsqd-tcp-address={daemon.tcp}", f"-topic={topic}", f"-runfor={seconds}s"]
            cpu = server_cpu_s(daemon.pid)
            done = subprocess.run([tool, *args, *more], check=True, capture_output=True, text=True)
            used = server_cpu_s(daemon.pid) - cpu
            rate = re.search(r"([\d.]+)ops/s", done.stderr)
            if rate is None:
                raise RuntimeError(done.stderr)
            messages = int(float(rate[1]) * seconds)
            results[part] = Result(messages, seconds, used, 0.0, peak_mb(daemon.pid))
    return results


def find_servers(args: argparse.Namespace) -> list[Server]:
    """Ours and Go's, as far as asked for and at hand."""
    ours = [args.nsqd] if args.nsqd else [sys.executable, "-m", "penstock.cli.nsqd"]
    servers = [] if args.no_ours else [Server(OURS, ours, args.flags)]
    servers += [Server(name, [program], args.flags) for name, program in args.also]
    go = args.go_nsqd or shutil.which("nsqd")
    if go and Path(go).resolve().parent != Path(sys.executable).parent:
        servers.append(Server("go", [go], []))
        servers.append(Server("go, memory", [go], [ALL_IN_MEMORY]))
    return servers


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nsqd", help="our program, if not the one of this environment")
    parser.add_argument(
        "--also", action="append", default=[], type=named, metavar="NAME=PROGRAM",
        help="another nsqd of ours, of another interpreter or version; repeatable",
    )  # fmt: skip
    parser.add_argument("--flags", action="append", default=[], help="a flag for ours, repeatable")
    parser.add_argument("--no-ours", action="store_true", help="measure the Go nsqd alone")
    parser.add_argument("--go-nsqd", help="a Go nsqd (default: nsqd on PATH)")
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="repeatable")
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--keep", action="store_true", help="the figures are those of the pages")
    parser.add_argument("--backlog", type=int, metavar="N", help="only: a backlog of N messages")
    parser.add_argument("--start", action="store_true", help="only: start-up times")
    parser.add_argument("--bench-writer", help="NSQ's bench_writer")
    parser.add_argument("--bench-reader", help="NSQ's bench_reader")
    args = parser.parse_args(argv)
    if args.quick:
        args.messages, args.seconds, args.rounds = 200_000, 1.0, 1
    return args


def measure_backlog(args: argparse.Namespace, servers: list[Server]) -> None:
    """The `--backlog` run."""
    table: Table = {}
    load = Load(args.backlog, args.seconds, args.size)
    for server in servers:
        for part, result in run_backlog(server, load).items():
            table.setdefault(part, {})[server.name] = result
            print_part(part, {server.name: result})
    save("nsqd-backlog", table, {"size": args.size})


def measure_starts(servers: list[Server]) -> dict[str, dict[str, float]]:
    """Start-up times of each program."""
    starts = {server.name: start_times(server) for server in servers if not server.flags}
    for name, times in starts.items():
        print(
            f"{name:12} exec to /ping {times['ping_s']:.3f} s, {times['ping_cpu_s']:.2f} s of CPU, "
            f"--version {times['version_s']:.3f} s"
        )
    return starts


def measure_tools(table: Table, args: argparse.Namespace, servers: list[Server]) -> None:
    """NSQ's own clients."""
    runs: Runs = {}
    for _ in range(args.rounds):
        for server in servers:
            results = run_tools(
                server, args.bench_writer, args.bench_reader, args.seconds, args.size
            )
            add_round(runs, server.name, results)
    print_rounds(table, runs)


def main(argv: list[str]) -> int:
    """Run what was asked for."""
    args = parse(argv)
    servers = find_servers(args)
    if args.backlog:
        measure_backlog(args, servers)
        return 0
    starts = measure_starts(servers)
    if args.start:
        return 0
    load = Load(args.messages, args.seconds, args.size)
    table: Table = {}
    try:
        run_scenarios(table, servers, args.only or list(SCENARIOS), args.rounds, load)
        if args.bench_writer and args.bench_reader:
            measure_tools(table, args, servers)
    finally:  # what was measured before a failure is of use
        save("nsqd-all", table, {"size": args.size, "starts": starts})
    if args.keep:
        keep(table, args.size)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
