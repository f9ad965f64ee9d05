"""Measures plain publishes, with compiled code and without, beside Go's nsqd.

The servers take turns, each keeps its data over all rounds, and the topic has a channel that nobody
reads. A line has the median rate of the rounds, its range, and the server's CPU a message.

    python bench/lane.py [--go-nsqd PATH] [--bench-writer PATH] [--rounds 5] [--seconds 2]
                         [--also NAME=PATH] [--only NAME …] [--without-a-channel] [--reader PATH]

It needs a C compiler, and ``wrk`` for HTTP; what is missing is left out. ``--also`` names another
nsqd of ours.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.lane import VARIABLE
from penstock.testing.daemons import Daemon, run_nsqd

TOPIC, SIZE = "bench", 200
STEADY = 4000
ALL_IN_MEMORY = "--mem-queue-size=100000000"
_POST = 'wrk.method = "POST"; wrk.body = string.rep("x", {})'


@dataclass
class Server:
    """A program under test."""

    name: str
    program: list[str]
    flags: list[str] = field(default_factory=list)
    lane: str = ""

    @contextmanager
    def run(self) -> Iterator[Daemon]:
        """It runs, and the environment is as before for others."""
        before = os.environ.pop(VARIABLE, None)
        if self.lane:
            os.environ[VARIABLE] = self.lane
        with run_nsqd(*self.flags, program=self.program) as daemon:
            os.environ.pop(VARIABLE, None)
            if before is not None:
                os.environ[VARIABLE] = before
            yield daemon
            daemon.kill()


Load = Callable[[Daemon, float], float]
"""Publishes for so many seconds; messages a second."""


def cpu_us(daemon: Daemon) -> float:
    """The CPU time that a server has taken, of all its threads."""
    tasks = Path(f"/proc/{daemon.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e3


def output_of(*words: object) -> str:
    """What a program says, which must succeed."""
    done = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def loads(folder: Path, bench_writer: str | None) -> dict[str, Load]:
    """The loads for which everything is there."""
    found: dict[str, Load] = {}
    if compiler := shutil.which("cc"):
        publish = folder / "publish"
        output_of(compiler, "-O2", "-pthread", "-o", publish, Path(__file__).parent / "publish.c")

        def lean(connections: int, threads: int, rate: int = 0) -> Load:
            return lambda daemon, seconds: float(
                output_of(
                    publish, daemon.tcp_port, connections, threads, seconds, TOPIC, SIZE, rate
                )
            )

        found["PUB, 2 of 1, lean"] = lean(2, 2)
        found["PUB, 4,000 a second"] = lean(2, 2, STEADY)
        found["PUB, 50 of 1"] = lean(50, 1)
    if bench_writer:

        def writer(batch: int) -> Load:
            def run(daemon: Daemon, seconds: float) -> float:
                said = output_of(
                    bench_writer, f"-nsqd-tcp-address=127.0.0.1:{daemon.tcp_port}",
                    f"-topic={TOPIC}", f"-size={SIZE}", f"-batch-size={batch}",
                    f"-runfor={seconds}s",
                )  # fmt: skip
                return float(_number(r"([0-9.]+)ops/s", said))

            return run

        found["bench_writer, 1"], found["bench_writer, 200"] = writer(1), writer(200)
    if wrk := shutil.which("wrk"):
        script = folder / "post.lua"
        script.write_text(_POST.format(SIZE))

        def post(daemon: Daemon, seconds: float) -> float:
            url = f"http://127.0.0.1:{daemon.http_port}/pub?topic={TOPIC}"
            said = output_of(wrk, "-t1", "-c16", f"-d{seconds:.0f}s", "-s", script, url)
            if "Non-2xx" in said:
                raise RuntimeError(said)
            return float(_number(r"Requests/sec: *([0-9.]+)", said))

        found["POST /pub, 16"] = post
    return found


def _number(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(text)
    return found[1]


def prepare(daemon: Daemon, *, channel: bool) -> None:
    """Make the topic, and its channel."""
    paths = ["topic/create?topic=" + TOPIC]
    if channel:
        paths.append(f"channel/create?topic={TOPIC}&channel=c")
    for path in paths:
        url = f"http://127.0.0.1:{daemon.http_port}/{path}"
        urllib.request.urlopen(urllib.request.Request(url, b"", method="POST")).read()


@contextmanager
def reading(reader: str | None, daemon: Daemon) -> Iterator[None]:
    """A program reads the topic, with a channel of its own."""
    if reader is None:
        yield
        return
    words = [reader, f"-topic={TOPIC}", f"-nsqd-tcp-address=127.0.0.1:{daemon.tcp_port}"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        time.sleep(0.2)
        yield
        running.terminate()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--go-nsqd", default=None)
    parser.add_argument("--bench-writer", default=None)
    parser.add_argument("--also", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--without-a-channel", action="store_true")
    parser.add_argument(
        "--reader", default=None, help="NSQ's nsq_tail, to read the topic meanwhile"
    )
    given = parser.parse_args()
    ours = [sys.executable, "-m", "penstock.cli.nsqd"]
    servers = [Server("compiled", ours), Server("without", ours, lane="off")]
    servers += [
        Server(name, [path]) for name, _, path in (each.partition("=") for each in given.also)
    ]
    if given.go_nsqd:
        go = [given.go_nsqd]
        servers += [Server("Go", go), Server("Go, memory", go, [ALL_IN_MEMORY])]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-lane-")))
        chosen = loads(folder, given.bench_writer)
        running = {each.name: stack.enter_context(each.run()) for each in servers}
        for daemon in running.values():
            prepare(daemon, channel=not given.without_a_channel)
        for load in [name for name in chosen if not given.only or name in given.only]:
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in running}
            for _ in range(given.rounds):
                for name, daemon in running.items():
                    with reading(given.reader, daemon):
                        before = cpu_us(daemon)
                        rate = chosen[load](daemon, given.seconds)
                        cost = (cpu_us(daemon) - before) / (rate * given.seconds)
                    found[name].append((rate, cost))
            print(load)
            for name, results in found.items():
                rates, costs = zip(*results, strict=True)
                print(
                    f"  {name:12} {statistics.median(rates) / 1e3:8.1f} k/s "
                    f"({min(rates) / 1e3:.1f} to {max(rates) / 1e3:.1f})"
                    f" {statistics.median(costs):7.2f} us",
                    flush=True,
                )


if __name__ == "__main__":
    main()
