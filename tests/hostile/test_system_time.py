"""A real nsqd with RocketMQ's port whose system's time is set, ahead or back, while it runs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.units import HOUR
from penstock.rocketmq.protocol.codes import RequestCode as Q
from penstock.rocketmq.protocol.command import Command
from penstock.testing.daemons import run_nsqd
from tools.harness.rocketmq.raw_client import RawClient

from .conftest import wait_until

PROGRAM = """
import runpy, sys, time

real = time.time_ns

def time_ns(path=sys.argv.pop(1)):
    with open(path) as file:
        return real() + int(file.read())

time.time_ns = time_ns
runpy.run_module("penstock.cli.nsqd", run_name="__main__", alter_sys=True)
"""
"""An nsqd whose system's time is off by the nanoseconds in the file named by its first argument."""
_PORT = re.compile(r"RocketMQ: listening on 127\.0\.0\.1:(\d+)")
SUSPEND, SUBSCRIPTION = 2, 4


class Site:
    """The nsqd, a client of RocketMQ's, and the file that sets the time."""

    def __init__(self, file: Path, port: int) -> None:
        self._file = file
        self.client = RawClient(port)

    def set_time(self, by_ns: int) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(str(by_ns))
        os.replace(new, self._file)

    def send(self, topic: str, body: bytes, text: str = "") -> None:
        answer = self.client.ask(
            Q.SEND_MESSAGE_V2, body, a="PG", b=topic, c="TBW102", d=1, e=0, f=0, g=1, h=0, i=text,
            j=0, k="false", m="false",
        )  # fmt: skip
        assert answer.code == 0, answer.remark

    def pull(self, topic: str, offset: int) -> Command:
        """Pull from an offset; waits up to 20 s for a message to come."""
        return self.client.ask(
            Q.PULL_MESSAGE, consumerGroup="CG", topic=topic, queueId=0, queueOffset=offset,
            maxMsgNums=32, sysFlag=SUSPEND | SUBSCRIPTION, commitOffset=0, subscription="*",
            suspendTimeoutMillis=20_000, subVersion=0,
        )  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    file = tmp_path / "ahead"
    file.write_text("0")
    with run_nsqd(
        "--rocketmq-address=127.0.0.1:0", "--max-bytes-per-file=2000", "--retention-time=72h",
        program=[sys.executable, "-c", PROGRAM, str(file)],
    ) as nsqd:  # fmt: skip
        assert wait_until(lambda: bool(_PORT.search(nsqd.log()))), nsqd.log()
        (port,) = _PORT.findall(nsqd.log())
        site = Site(file, int(port))
        yield site
        site.client.close()


def test_set_back_by_an_hour_it_delays_nobody_for_an_hour(site: Site) -> None:
    site.send("T", b"0")
    site.send("T", b"level", "DELAY\x011\x02")
    site.send("T", b"timer", "TIMER_DELAY_MS\x011500\x02")
    site.set_time(-HOUR)
    site.send("T", b"level", "DELAY\x012\x02")
    assert [site.pull("T", offset).code for offset in (1, 2, 3)] == [0, 0, 0]


def test_set_ahead_it_deletes_nothing_that_is_unread(site: Site) -> None:
    for number in range(20):
        site.send("T", b"%d" % number + bytes(500))
    site.set_time(100 * HOUR)
    site.send("T", b"later")
    assert site.client.ask(Q.DELETE_EXPIRED_COMMITLOG).code == 0
    answer = site.pull("T", 0)
    assert (answer.code, answer.ext and answer.ext["minOffset"]) == (0, "0")
