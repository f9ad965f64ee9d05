"""Measures what a long backlog costs a node and its copy: catching up, and promotion.

Catching up: a primary with many messages takes PUBs at half of the rate that it can; how long each
waits for its OK is measured alone, and while a new follower copies all there is. Promotion: the
primary is killed, its follower promoted, and the time until the first OK measured. All programs
share the processors of this machine.

    python bench/copies_backlog.py [--messages N] [--size BYTES] [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any

import clients
import numpy as np
import payloads
from harness import SETTLE_S, measure
from wires import PLAIN, Wire

from penstock.testing.daemons import Daemon, run_nsqd

TOPIC = "backlog"
PACED = "paced"
BATCH = 200
CONNECTIONS = 2
WAIT_S_MAX = 3600.0
POLL_S = 0.02


class Pace:
    """Publishes one message at a time, ``rate`` a second, and notes in ns how long after its tick
    each had its OK: what one is late counts for those behind it.
    """

    def __init__(self, daemon: Daemon, size: int, rate: float) -> None:
        self.delays: list[int] = []
        self._wire = Wire(daemon.tcp)
        self._command = payloads.pub(PACED, payloads.json_bodies([size])[0])
        self._rate = rate
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        start, number = time.monotonic(), 0
        while not self._ended.is_set():
            tick = start + number / self._rate
            if (pause := tick - time.monotonic()) > 0:
                time.sleep(pause)
            self._wire.socket.sendall(self._command)
            self._wire.expect_oks(1)
            self.delays.append(int((time.monotonic() - tick) * 1e9))
            number += 1

    def __enter__(self) -> Pace:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._wire.close()


def fill(daemon: Daemon, messages: int, size: int) -> None:
    """Publish so many messages, of which a channel has finished none."""
    ask(daemon, "POST", f"/topic/create?topic={TOPIC}")
    ask(daemon, "POST", f"/channel/create?topic={TOPIC}&channel=ch")
    command = payloads.mpub(TOPIC, payloads.json_bodies([size] * BATCH))
    parts = clients.spread(max(1, messages // BATCH), CONNECTIONS)
    measure([daemon.pid], [partial(clients.publish, daemon.tcp, PLAIN, command, 1, BATCH, part)
                           for part in parts])  # fmt: skip


def full_rate(daemon: Daemon, size: int, seconds: float) -> float:
    """PUBs a second over one connection that waits for each OK."""
    with Pace(daemon, size, 1e9) as pace:
        time.sleep(seconds)
    return len(pace.delays) / seconds


def ask(daemon: Daemon, method: str, path: str) -> Any:
    """The JSON of an answer, None where it is empty."""
    request = urllib.request.Request(f"http://{daemon.http}{path}", method=method)
    with urllib.request.urlopen(request, timeout=WAIT_S_MAX) as answer:
        body = answer.read()
    return json.loads(body) if body else None


def until_whole(follower: Daemon, poll_s: float = POLL_S) -> None:
    """Wait until the follower has everything; each look takes a publisher of this process time."""
    end = time.monotonic() + WAIT_S_MAX
    while not ask(follower, "GET", "/replication")["whole"]:
        if time.monotonic() > end:
            raise TimeoutError("the follower does not catch up")
        time.sleep(poll_s)


@contextmanager
def filled(messages: int, size: int) -> Iterator[Daemon]:
    """A primary with a backlog."""
    with run_nsqd() as primary:
        fill(primary, messages, size)
        time.sleep(SETTLE_S)
        yield primary


def catching_up(messages: int, size: int, seconds: float) -> dict[str, float]:
    """The publishers' times in ms, alone and during the copy, and the copy's duration."""
    with filled(messages, size) as primary, ExitStack() as running:
        rate = full_rate(primary, size, seconds) / 2
        with Pace(primary, size, rate) as alone:
            time.sleep(seconds)
        with Pace(primary, size, rate) as during:
            start = time.monotonic()
            follower = running.enter_context(run_nsqd(f"--follow={primary.http}"))
            until_whole(follower, 0.5)
            copied = time.monotonic() - start
        figures = {"rate": rate, "seconds": copied, "messages a second": messages / copied}
        for name, pace in (("alone", alone), ("copying", during)):
            for percent in (50, 99):
                figures[f"{name} p{percent}"] = float(np.percentile(pace.delays, percent)) / 1e6
    return figures


def promotion(messages: int, size: int) -> dict[str, float]:
    """Seconds from the primary's death to the first OK, and those of the promotion's answer."""
    with filled(messages, size) as primary, run_nsqd(f"--follow={primary.http}") as follower:
        until_whole(follower)
        primary.kill()
        start = time.monotonic()
        ask(follower, "POST", "/replication/promote")
        answered = time.monotonic() - start
        command = payloads.pub(TOPIC, b"first")
        while True:
            try:
                wire = Wire(follower.tcp)
                wire.socket.sendall(command)
                wire.expect_oks(1)
            except (OSError, RuntimeError):
                time.sleep(POLL_S)
                continue
            wire.close()
            break
        first = time.monotonic() - start
        [topic] = ask(follower, "GET", f"/stats?format=json&topic={TOPIC}")["topics"]
        assert topic["channels"][0]["depth"] >= messages, "messages are missing"
        return {"answer": answered, "first OK": first}


def main(argv: list[str]) -> int:
    """Measure both, and print medians with ranges."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0, help="of publishing alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short round")
    args = parser.parse_args(argv)
    if args.quick:
        args.messages, args.seconds, args.rounds = 100_000, 1.0, 1
    for name, run in (
        ("catching up", partial(catching_up, args.messages, args.size, args.seconds)),
        ("promotion", partial(promotion, args.messages, args.size)),
    ):
        rounds = [run() for _ in range(args.rounds)]
        print(f"{name}, {args.messages:,} messages of {args.size} bytes:")
        for key in rounds[0]:
            values = sorted(each[key] for each in rounds)
            print(f"  {key}: {median(values):,.3f} ({values[0]:,.3f} to {values[-1]:,.3f})")
        if "copying p99" in rounds[0]:
            ratios = [each["copying p99"] / each["alone p99"] for each in rounds]
            print(f"  p99 while copying to p99 alone: {median(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
