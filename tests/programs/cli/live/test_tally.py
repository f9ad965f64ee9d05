"""The consumer of the demo, against a real nsqd."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cli.live.flights import TOPIC
from penstock.cli.live.tally import CHANNEL
from penstock.nsq.client.blocking import Producer
from penstock.testing.daemons import Daemon, run_nsqd


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


@pytest.fixture
def tally(nsqd: Daemon) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "penstock.cli.live.tally", nsqd.tcp, "1200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def next_report(tally: subprocess.Popen[str]) -> dict[str, Any]:
    assert tally.stdout is not None
    return dict(json.loads(tally.stdout.readline()))


def test_it_counts_finishes_and_stops(nsqd: Daemon, tally: subprocess.Popen[str]) -> None:
    assert next_report(tally) == {"state": "ready"}
    with Producer(nsqd.tcp) as producer:
        for _ in range(3):
            producer.multi_publish(TOPIC, [b"event"] * 400)
    counts: list[int] = []
    report: dict[str, Any] = {}
    while "finished" not in report:
        report = next_report(tally)
        counts.append(report["consumed"])
        assert report["again"] == 0
    assert counts == sorted(counts)
    assert counts[-1] == 1200
    assert tally.wait(60) == 0
    with urllib.request.urlopen(f"http://{nsqd.http}/stats?format=json", timeout=30) as answer:
        (topic,) = json.load(answer)["topics"]
    (channel,) = topic["channels"]
    assert (channel["channel_name"], channel["depth"]) == (CHANNEL, 0)
    assert channel["message_count"] == 1200


def test_an_nsqd_that_goes_away_is_reported(nsqd: Daemon, tally: subprocess.Popen[str]) -> None:
    assert next_report(tally) == {"state": "ready"}
    nsqd.kill()
    assert next_report(tally)["error"].startswith("nsqd closed the connection")
    assert tally.wait(60) == 1
