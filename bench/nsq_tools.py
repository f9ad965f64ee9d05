"""Our nsq_to_file, nsq_to_nsq and to_nsq beside Go's, against the same nsqd: messages a second.

    make bench-nsq-tools ARGS="--go DIR"                   DIR holds Go's programs
    python bench/nsq_tools.py --go DIR --only to_nsq       one job

The tools take turns (A B A B), each on a topic of its own, and the median of the rounds counts. The
time is from the start of the program to the last message at its destination, so starting counts
too. CPU is the tool's own, user and system, for a message.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.nsq.client.blocking import Consumer, Producer
from penstock.testing.daemons import Daemon, run_nsqd

OURS = Path(sys.executable).parent
BODY_BYTES = 150
BATCH = 500
DONE_S_MAX = 300.0
ROUNDS = 3


@dataclass(frozen=True)
class Outcome:
    """One run of a tool."""

    messages: int
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def cpu_us(self) -> float:
        """Microseconds of the tool's CPU for a message."""
        return self.cpu_s / self.messages * 1e6


@dataclass(frozen=True)
class Bench:
    """What the jobs share: two daemons, a folder, and how many messages there are."""

    source: Daemon
    target: Daemon
    folder: Path
    count: int


def body(number: int) -> bytes:
    """A line of JSON, no two alike."""
    text = b'{"id":%d,"text":"' % number
    return text + b"x" * (BODY_BYTES - len(text) - 2) + b'"}'


def channel_figures(daemon: Daemon, topic: str) -> dict[str, int]:
    """Messages of the topic, and what its only channel has left to do."""
    url = f"http://{daemon.http}/stats?format=json&topic={topic}&include_clients=false"
    with urllib.request.urlopen(url, timeout=5) as answer:
        topics = json.load(answer)["topics"] or [{"message_count": 0, "channels": []}]
    channels = topics[0]["channels"] or [{"depth": 0, "in_flight_count": 0}]
    left = channels[0]["depth"] + channels[0]["in_flight_count"]
    return {"messages": topics[0]["message_count"], "left": left}


def fill(bench: Bench, topic: str, channel: str) -> None:
    """Publish what the tool is to consume, with its channel there."""
    address = bench.source.tcp
    with Consumer(topic, channel, nsqd_tcp_addresses=[address], max_in_flight=0) as consumer:
        consumer.get(0.2)
    with Producer(address) as producer:
        for start in range(0, bench.count, BATCH):
            numbers = range(start, min(start + BATCH, bench.count))
            producer.multi_publish(topic, [body(number) for number in numbers])


def run(command: list[str], count: int, is_done: Callable[[], bool], stdin: int) -> Outcome:
    """Run a tool until its work is done; one that does not end by itself is told to."""
    before = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not is_done():
        if time.perf_counter() - before > DONE_S_MAX:
            process.kill()
            raise SystemExit(f"not done within {DONE_S_MAX:g} s: {' '.join(command)}")
        time.sleep(0.02)
    seconds = time.perf_counter() - before
    os.kill(process.pid, signal.SIGTERM)  # not by Popen, which would reap it and its figures
    _, _, used = os.wait4(process.pid, 0)
    return Outcome(count, seconds, used.ru_utime + used.ru_stime)


def to_nsq(bench: Bench, programs: Path, topic: str) -> Outcome:
    """A file of lines on stdin."""
    lines = bench.folder / "lines"
    if not lines.exists():
        lines.write_bytes(b"".join(body(number) + b"\n" for number in range(bench.count)))
    command = [f"{programs}/to_nsq", f"--topic={topic}", f"--nsqd-tcp-address={bench.target.tcp}"]
    with lines.open("rb") as stdin:
        return run(
            command,
            bench.count,
            lambda: channel_figures(bench.target, topic)["messages"] >= bench.count,
            stdin.fileno(),
        )


def to_file(bench: Bench, programs: Path, topic: str, *flags: str) -> Outcome:
    """A backlog into files, at most 2,500 messages in flight."""
    fill(bench, topic, "nsq_to_file")
    command = [
        f"{programs}/nsq_to_file",
        f"--topic={topic}",
        f"--nsqd-tcp-address={bench.source.tcp}",
        f"--output-dir={bench.folder / topic}",
        "--sync-interval=1s",
        *flags,
    ]
    return run(
        command,
        bench.count,
        lambda: channel_figures(bench.source, topic)["left"] == 0,
        subprocess.DEVNULL,
    )


def nsq_to_nsq(bench: Bench, programs: Path, topic: str) -> Outcome:
    """A backlog from one node to another."""
    fill(bench, topic, "nsq_to_nsq")
    command = [
        f"{programs}/nsq_to_nsq",
        f"--topic={topic}",
        f"--nsqd-tcp-address={bench.source.tcp}",
        f"--destination-nsqd-tcp-address={bench.target.tcp}",
    ]
    return run(
        command,
        bench.count,
        lambda: channel_figures(bench.source, topic)["left"] == 0,
        subprocess.DEVNULL,
    )


# Name, how, messages. Go's to_nsq and nsq_to_nsq publish one by one, so they get fewer.
JOBS: dict[str, tuple[Callable[[Bench, Path, str], Outcome], int]] = {
    "to_nsq": (to_nsq, 200_000),
    "nsq_to_file": (to_file, 500_000),
    "nsq_to_file --gzip": (lambda *job: to_file(*job, "--gzip"), 500_000),
    "nsq_to_file, 2500 in flight": (lambda *job: to_file(*job, "--max-in-flight=2500"), 500_000),
    "nsq_to_nsq": (nsq_to_nsq, 200_000),
}


def measure(name: str, go: Path | None, rounds: int, scale: float) -> None:
    """One job, ours and Go's in turns, and its line of the table."""
    job, count = JOBS[name]
    count = max(1, int(count * scale))
    makes = {"ours": OURS} | ({"go": go} if go else {})
    runs: dict[str, list[Outcome]] = {make: [] for make in makes}
    with tempfile.TemporaryDirectory() as folder, run_nsqd() as source, run_nsqd() as target:
        bench = Bench(source, target, Path(folder), count)
        for number in range(rounds):
            for make, programs in makes.items():
                runs[make].append(job(bench, programs, f"{make}-{number}"))
    rates = {make: statistics.median(one.rate for one in each) for make, each in runs.items()}
    for make, each in runs.items():
        cpu = statistics.median(one.cpu_us for one in each)
        ratio = f"{rates['ours'] / rates[make]:6.2f} x" if make != "ours" else ""
        print(f"{name:<30}{make:<6}{rates[make]:>10,.0f} msg/s {cpu:>8.2f} us/msg {ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--go", type=Path, metavar="DIR", help="where Go's programs are")
    parser.add_argument("--only", action="append", choices=list(JOBS), help="repeatable")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--scale", type=float, default=1.0, help="times as many messages")
    arguments = parser.parse_args()
    for name in arguments.only or JOBS:
        measure(name, arguments.go, arguments.rounds, arguments.scale)


if __name__ == "__main__":
    main()
