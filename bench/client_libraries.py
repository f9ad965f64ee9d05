"""Our client library beside pynsq, gnsq and ansq, against the same servers: messages a second.

    make bench-client-libraries                             against our nsqd
    python bench/client_libraries.py --go-nsqd PATH         and against Go's
    python bench/client_libraries.py --quick --only multi   one short round of one job

The libraries take turns (A B C A B C), each run on a topic of its own server, and the median
counts. The last column compares with the fastest of the others; the goal is 3.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from client_players import BODY, CHANNEL, TOPIC

from penstock.nsq.client.blocking import Consumer, Producer
from penstock.testing.daemons import Daemon, run_nsqd

PLAYERS = Path(__file__).with_name("client_players.py")
OTHERS = ("pynsq", "gnsq", "ansq")
PLAY_S_MAX = 120
ROUNDS = 3

# Job, widths, messages.
JOBS: dict[str, tuple[tuple[int, ...], int]] = {
    "single": ((1, 100, 1000), 40_000),
    "multi": ((100, 200), 200_000),
    "consume": ((200, 2500), 60_000),
}
FASTER_WAYS = {"single": "soon", "consume": "deliveries"}
"""What only our library has, told beside the rest."""


def play(daemon: Daemon, library: str, job: str, count: int, width: int) -> float | str:
    """Messages a second; or what went wrong, as the other libraries do not survive everything."""
    command = [sys.executable, str(PLAYERS), library, job, daemon.tcp, str(count), str(width)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PLAY_S_MAX)
    except subprocess.TimeoutExpired:
        return "stuck"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1][:60]
    return float(done.stdout.split()[-1])


def fill(daemon: Daemon, count: int) -> None:
    """Publish what is to be consumed, with its channel there."""
    with Consumer(TOPIC, CHANNEL, nsqd_tcp_addresses=[daemon.tcp], max_in_flight=0):
        pass
    with Producer(daemon.tcp) as producer:
        for start in range(0, count, 500):
            producer.multi_publish(TOPIC, [BODY] * min(500, count - start))


def rates(program: list[str] | None, library: str, job: str, count: int, width: int) -> float | str:
    """One run on a fresh server."""
    flags = ["--mem-queue-size=1000000"] if program else []
    with run_nsqd(*flags, program=program) as daemon:
        if job in ("consume", "deliveries"):
            fill(daemon, count)
        return play(daemon, library, job, count, width)


def compare(program: list[str] | None, job: str, count: int, width: int, rounds: int) -> None:
    contenders = [("penstock", job), *((other, job) for other in OTHERS)]
    if job in FASTER_WAYS and width > 1:
        contenders.insert(1, ("penstock", FASTER_WAYS[job]))
    found: dict[tuple[str, str], list[float | str]] = {each: [] for each in contenders}
    for _ in range(rounds):
        for each in contenders:
            found[each].append(rates(program, *each, count, width))
    medians = {
        each: statistics.median([rate for rate in several if isinstance(rate, float)] or [0.0])
        for each, several in found.items()
    }
    fastest = max(medians[other, job] for other in OTHERS)
    for (library, way), rate in medians.items():
        name = f"{library} ({way})" if way != job else library
        failures = [each for each in found[library, way] if isinstance(each, str)]
        ratio = f"{rate / fastest:6.2f}" if fastest else "     -"
        print(f"  {name:24} {rate:12,.0f}/s {ratio}  {failures[0] if failures else ''}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--go-nsqd", help="Go's nsqd, to be measured against as well")
    parser.add_argument("--quick", action="store_true", help="one round, a tenth of the messages")
    parser.add_argument("--only", choices=list(JOBS), action="append")
    options = parser.parse_args()
    os.environ.pop("PENSTOCK_NSQD", None)
    servers: list[tuple[str, list[str] | None]] = [("penstock's nsqd", None)]
    if options.go_nsqd:
        servers.append(("Go's nsqd", [options.go_nsqd]))
    for name, program in servers:
        for job in options.only or JOBS:
            widths, count = JOBS[job]
            for width in widths:
                less = 10 if options.quick or (job == "single" and width == 1) else 1
                print(f"{name}: {job}, {width}", flush=True)
                compare(program, job, count // less, width, 1 if options.quick else ROUNDS)


if __name__ == "__main__":
    main()
