"""A query that is killed in a loop: nothing is missing, and a batch is the same when it is run
again. PENSTOCK_CHANNEL_KILLS says how often.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import create, publish
from tests.programs.spark.channel.killed_query import plans

KILLS = int(os.environ.get("PENSTOCK_CHANNEL_KILLS", "4"))
GO = os.environ.get("PENSTOCK_GO_NSQ", "")
EACH = 4000
WAIT_S_MAX = 200


class Query:
    """The program and what it has written."""

    def __init__(self, nsqd: Daemon, folder: Path) -> None:
        self._folder = folder / "query"
        self._folder.mkdir()
        self._given = json.dumps(
            {
                "mode": "channel", "topic": "t", "channel": "c", "nsqd_tcp_address": nsqd.tcp,
                "stagingLocation": str(folder / "staging"), "maxInFlight": "500",
            }
        )  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        module = "tests.programs.spark.channel.killed_query"
        command = [sys.executable, "-m", module, self._given, str(self._folder)]
        self._process = subprocess.Popen(command)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def plans(self) -> int:
        return plans(self._folder)

    def runs(self) -> dict[int, list[list[list[object]]]]:
        """The rows of each run of each batch."""
        found: dict[int, list[list[list[object]]]] = {}
        for path in self._folder.glob("rows-*-*"):
            if path.suffix != ".tmp":
                number = int(path.name.split("-")[1])
                found.setdefault(number, []).append(json.loads(path.read_text()))
        return found

    def wait(self, *, plans: int = 0, bodies: int = 0) -> None:
        """Wait until it has planned so many batches and read so many different bodies."""
        assert self._process is not None
        for _ in range(WAIT_S_MAX * 20):
            assert self._process.poll() is None, "the program has ended by itself"
            if self.plans >= plans and (not bodies or len(self.bodies()) >= bodies):
                return
            time.sleep(0.05)
        raise AssertionError(f"{self.plans} batches, {len(self.bodies())} bodies")

    def bodies(self) -> set[object]:
        return {row[1] for runs in self.runs().values() for row in runs[0]}


def test_whatever_the_moment_nothing_is_missing(tmp_path: Path) -> None:
    rng = random.Random(1)
    program = str(Path(GO) / "nsqd") if GO else None
    with run_nsqd("--msg-timeout=5s", program=program) as nsqd:
        create(nsqd, "t", "c")
        query = Query(nsqd, tmp_path)
        try:
            for number in range(KILLS):
                publish(nsqd, "t", [b"%d" % (number * EACH + each) for each in range(EACH)])
                before = query.plans
                query.start()
                query.wait(plans=before + 1)
                time.sleep(rng.uniform(0, 0.2))  # another moment each time
                query.kill()
            query.start()
            query.wait(bodies=KILLS * EACH)
        finally:
            query.kill()
    _check(query)


def _check(query: Query) -> None:
    runs = query.runs()
    assert sorted(runs) == list(range(len(runs)))
    for number, again in runs.items():
        assert all(run == again[0] for run in again), f"batch {number} differs"
    deliveries = Counter((row[0], row[2]) for again in runs.values() for row in again[0])
    # A message that is there twice was delivered twice, each time with another number of attempts.
    assert set(deliveries.values()) == {1}
    assert query.bodies() == {str(number) for number in range(KILLS * EACH)}
