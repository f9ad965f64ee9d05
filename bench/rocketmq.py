"""Measures our RocketMQ broker beside Java's, with upstream's own benchmark programs as clients.

The installations take turns (A B A B), each scenario on fresh servers; the median of the rounds
counts, and their range stands below it. The clients are `Producer`, `BatchProducer` and `Consumer`
of the package `org.apache.rocketmq.example.benchmark`; they print a rate over 9 seconds every 10
seconds. The first lines are left out: JVMs need a while to get warm.

    python bench/rocketmq.py --java-bench DIR [--java-server DIR] [--only NAME …] [--queues N …]

DIR of the client holds `classes/` and `lib/*.jar`, that of the server `*.jar`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness import Result, peak_mb, server_cpu_s
from report import Runs, Table, add_round, named, print_rounds, save
from rocketmq_servers import Installation, Running, javas, ours

ASYNC, SYNC = "ASYNC_FLUSH", "SYNC_FLUSH"
CLIENT_OPTIONS = ("-Xms1g", "-Xmx1g")
OWN_QUEUES = 1024
"""Queues of the topic that a broker has by itself."""
LINE_S = 10.0
"""Between two lines of a client."""
LINE_S_MAX = 45.0
_RATE = re.compile(r"(?:TPS|MPS): (\d+)(?!.*MPS)")


@dataclass(frozen=True)
class Scenario:
    """A benchmark program with its arguments; ``is_drain`` gives it a backlog first."""

    program: str
    arguments: tuple[str, ...]
    flush: str = ASYNC
    is_drain: bool = False


SCENARIOS = {
    "send64": Scenario("Producer", ("-w", "64", "-s", "128")),
    "send1": Scenario("Producer", ("-w", "1", "-s", "128")),
    "send64-1k": Scenario("Producer", ("-w", "64", "-s", "1024")),
    "batch16": Scenario("BatchProducer", ("-w", "16", "-b", "16", "-s", "128")),
    "consume": Scenario("Consumer", ("-w", "20"), is_drain=True),
    "sync64": Scenario("Producer", ("-w", "64", "-s", "128"), SYNC),
    "sync1": Scenario("Producer", ("-w", "1", "-s", "128"), SYNC),
}


class Reading(NamedTuple):
    """What was known when the client printed a line."""

    at_s: float
    server_cpu_s: float
    client_cpu_s: float
    rate: int


class Client:
    """Upstream's benchmark programs, from a folder with their classes and jars."""

    def __init__(self, folder: Path) -> None:
        self._java = ["java", *CLIENT_OPTIONS, "-cp", f"{folder}/classes:{folder}/lib/*"]

    @contextmanager
    def start(
        self, program: str, topic: str, server: Running, arguments: tuple[str, ...]
    ) -> Iterator[subprocess.Popen[str]]:
        """The program in the block; it never ends by itself."""
        command = [*self._java, f"org.apache.rocketmq.example.benchmark.{program}", *arguments]
        command += ["-t", topic, "-n", f"127.0.0.1:{server.name_port}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def measure(
        self, scenario: Scenario, topic: str, server: Running, warm: int, lines: int
    ) -> Result:
        """The mean of so many lines, after those of the time to get warm."""
        with self.start(scenario.program, topic, server, scenario.arguments) as process:
            readings = list(_readings(process, server, warm + lines))[warm - 1 :]
        seconds = readings[-1].at_s - readings[0].at_s
        rate = sum(reading.rate for reading in readings[1:]) / lines
        return Result(
            int(rate * seconds),
            seconds,
            readings[-1].server_cpu_s - readings[0].server_cpu_s,
            readings[-1].client_cpu_s - readings[0].client_cpu_s,
            peak_mb(server.pid),
        )

    def fill(self, topic: str, queues: int, server: Running, messages: int) -> None:
        """Publish until at least so many messages are stored."""
        with self.start("BatchProducer", topic, server, SCENARIOS["batch16"].arguments):
            while server.stored(topic, queues) < messages:
                time.sleep(1)


def _readings(process: subprocess.Popen[str], server: Running, count: int) -> Iterator[Reading]:
    assert process.stdout is not None
    watchdog = threading.Timer(count * LINE_S_MAX, process.kill)
    watchdog.start()
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if found := _RATE.search(line):
                yield Reading(time.monotonic(), server_cpu_s(server.pid), server_cpu_s(process.pid),
                              int(found[1]))  # fmt: skip
                count -= 1
                if not count:
                    return
    finally:
        watchdog.cancel()
    raise RuntimeError("the client ended or said nothing: " + "".join(said[-5:]))


def run(
    installation: Installation, scenario: Scenario, queues: int | None, args: argparse.Namespace
) -> Result:
    """One scenario on fresh servers."""
    client = Client(args.java_bench)
    with installation.run(scenario.flush) as server:
        topic = server.topic(queues)
        if scenario.is_drain:
            client.fill(topic, queues or OWN_QUEUES, server, args.backlog)
        result = client.measure(scenario, topic, server, args.warm, args.lines)
    drained = result.rate * (result.seconds + LINE_S * args.warm)
    if scenario.is_drain and (not result.messages or drained > args.backlog):
        args.backlog *= 2
        print(f"{result.rate:,.0f} msg/s: the backlog was too short, again with {args.backlog:,}")
        return run(installation, scenario, queues, args)
    return result


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--java-bench", type=Path, required=True, help="upstream's clients")
    parser.add_argument("--java-server", type=Path, help="upstream's name server and broker")
    parser.add_argument("--no-ours", action="store_true", help="measure Java's alone")
    parser.add_argument(
        "--also", action="append", default=[], type=named, metavar="NAME=PYTHON",
        help="ours as well with this interpreter, which has it installed; repeatable",
    )  # fmt: skip
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="repeatable")
    parser.add_argument(
        "--queues", action="append", type=int, default=[],
        help=f"a topic of so many queues, instead of the own one of {OWN_QUEUES}; repeatable",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=2, help="lines to get warm, 1 at least")
    parser.add_argument("--lines", type=int, default=2, help="lines of the client that count")
    parser.add_argument("--backlog", type=int, default=4_000_000, help="messages to consume")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run what was asked for."""
    args = parse(argv)
    installations = [] if args.no_ours else [ours()]
    installations += [ours(python, name) for name, python in args.also]
    if args.java_server:
        installations.append(javas(args.java_server))
    table: Table = {}
    try:
        for queues in args.queues or [None]:
            for name in args.only or SCENARIOS:
                part = f"{name}, {queues or OWN_QUEUES} queues"
                runs: Runs = {}
                for _ in range(args.rounds):
                    for installation in installations:
                        result = run(installation, SCENARIOS[name], queues, args)
                        add_round(runs, installation.name, {part: result})
                print_rounds(table, runs)
    finally:  # what was measured before a failure is of use
        save("rocketmq", table, {})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
