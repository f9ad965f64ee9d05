"""The Spark child of ``demo`` and ``up``: begins, archives, proves, and ends when told to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.nsq.client.blocking import Producer
from penstock.testing.daemons import run_nsqd, run_nsqlookupd
from tests.processes import left_over, marked_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

JOB = [sys.executable, "-m", "penstock.cli.live.archive_job"]


class Job:
    """The child and what it said."""

    def __init__(self, folder: Path, lookupd: str, log: Any) -> None:
        self.environment = marked_environment()
        self.process = subprocess.Popen(
            [*JOB, "flights", lookupd, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env=self.environment,
        )  # fmt: skip

    def tell(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def until(self, fact: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            facts: dict[str, Any] = json.loads(line)
            if fact in facts:
                return facts
        raise AssertionError(f"it ended without {fact}")


@pytest.fixture
def lookupd() -> Iterator[tuple[str, str]]:
    with (
        run_nsqlookupd() as lookupd,
        run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as nsqd,
    ):
        yield lookupd.http, nsqd.tcp


@pytest.fixture
def job(lookupd: tuple[str, str], tmp_path: Path) -> Iterator[Job]:
    with (tmp_path / "job.log").open("wb") as log:
        job = Job(tmp_path, lookupd[0], log)
        with job.process:
            yield job
            job.process.kill()
    assert left_over(job.environment, 60) == {}


def test_it_proves_what_is_in_the_archive(job: Job, lookupd: tuple[str, str]) -> None:
    with Producer(lookupd[1]) as producer:
        producer.multi_publish(
            "flights", [b'{"seq":%d,"carrier":"UA","dep_delay":2}' % n for n in range(400)]
        )
    job.tell("begin")
    job.tell("finish 400")
    batch = job.until("archived")
    assert (batch["archived"], batch["rows"]) == (400, 400)
    proof = job.until("proof")
    assert proof["finished"] is True
    assert proof["proof"] == [
        {"carrier": "UA", "events": 400, "distinct": 400, "first": 0, "last": 399, "delay": 2.0}
    ]
    assert job.process.wait(120) == 0


def test_sigterm_while_spark_starts_leaves_no_java_behind(job: Job) -> None:
    assert job.until("doing")["doing"] == "starting Java and Spark"
    job.process.terminate()
    assert job.process.wait(120) == 0
