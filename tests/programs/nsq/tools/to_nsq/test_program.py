from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.nsq.client import Config
from penstock.nsq.client.errors import BadMessage, BadTopic, NotConnected
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.to_nsq.program import Sender, run
from penstock.testing.daemons import Daemon, run_nsqd
from tools.harness.processes import text_on

PROGRAM = [sys.executable, "-m", "penstock.cli.to_nsq"]
GOOD = ["--topic=t", "--nsqd-tcp-address=127.0.0.1:1"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (GOOD[1:], "--topic required"),
        ([GOOD[0], "--delimiter=ab"], "--delimiter must be a single byte"),
        ([*GOOD, "--delimiter="], "--delimiter must be a single byte"),
        ([*GOOD, "--delimiter=é"], "--delimiter must be a single byte"),
        (
            [*GOOD, "--producer-opt=heartbeat_interval,90s"],
            "failed to create nsq.Producer - HeartbeatInterval 1m30s must be less than"
            " ReadTimeout 1m0s",
        ),
        (GOOD[:1], "--nsqd-tcp-address required"),
    ],
)
def test_checks_in_upstreams_order(argv: list[str], text: str) -> None:
    with pytest.raises(ToolError) as caught:
        run(argv)
    assert str(caught.value) == text


@pytest.fixture(scope="module")
def nsqds() -> Iterator[list[Daemon]]:
    with run_nsqd() as one, run_nsqd() as two:
        yield [one, two]


def published(nsqd: Daemon, topic: str) -> int:
    url = f"http://{nsqd.http}/stats?format=json&topic={topic}"
    topics = json.loads(urllib.request.urlopen(url, timeout=30).read())["topics"]
    return sum(each["message_count"] for each in topics)


def test_every_record_goes_to_every_address(nsqds: list[Daemon]) -> None:
    addresses = [f"--nsqd-tcp-address={nsqd.tcp}" for nsqd in (*nsqds, nsqds[0])]
    records = b"".join(b"%d\n" % number for number in range(20_000)) + b"last"
    done = subprocess.run(
        [*PROGRAM, "--topic=every", *addresses], input=records, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, b"")
    assert [published(nsqd, "every") for nsqd in nsqds] == [20_001, 20_001]


def test_the_rate_is_kept(nsqds: list[Daemon]) -> None:
    words = [*PROGRAM, "--topic=rate", "--rate=1000", f"--nsqd-tcp-address={nsqds[0].tcp}"]
    done = subprocess.run(words, input=b"x\n" * 300, capture_output=True, timeout=60)
    assert done.returncode == 0
    assert b"Throttling messages rate to max:1000/second" in done.stderr
    assert published(nsqds[0], "rate") == 300


def test_a_node_that_is_not_there_is_told_at_once() -> None:
    # stdin stays open: the failure is not to wait for more input.
    with subprocess.Popen(
        [*PROGRAM, *GOOD], stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as program:
        assert program.stdin is not None
        assert program.stderr is not None
        with suppress(BrokenPipeError):  # as soon as that
            program.stdin.write(b"one\n")
        lines = program.stderr.read().decode().splitlines()
        assert program.wait(60) == 1
    assert lines[-1].endswith(" dial tcp 127.0.0.1:1: connect: connection refused")


def test_a_bar_for_a_file_on_a_terminal(nsqds: list[Daemon], tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 99 + b"\n")
    terminal, side = pty.openpty()
    words = [*PROGRAM, "--topic=bar", f"--nsqd-tcp-address={nsqds[0].tcp}"]
    with (tmp_path / "f").open("rb") as stdin:
        done = subprocess.run(words, stdin=stdin, stderr=side, timeout=60)
    os.close(side)
    shown = text_on(terminal)
    assert done.returncode == 0
    assert "100%" in shown
    assert "100/100 bytes" in shown


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--max-msg-size=100") as daemon:
        yield daemon


async def send(address: str, topic: str, *portions: list[bytes]) -> int:
    """The bytes that were said to be published. Raises the first error."""
    sizes: list[int] = []
    sender = None
    try:
        async with asyncio.TaskGroup() as group:
            sender = Sender(address, topic, Config(), group, sizes.append)
            for portion in portions:
                await sender.send(portion)
    except ExceptionGroup as error:
        raise error.exceptions[0] from None
    finally:
        assert sender is not None
        await sender.close()
    return sum(sizes)


async def test_many_portions(nsqd: Daemon) -> None:
    portions = [[b"record %d" % number] * 10 for number in range(50)]
    bytes_published = await send(nsqd.tcp, "many", [b"one"], *portions)
    assert published(nsqd, "many") == 501
    assert bytes_published == 4 + sum(len(record) + 1 for each in portions for record in each)


async def test_a_record_too_big_is_named_and_those_before_it_are_published(nsqd: Daemon) -> None:
    with pytest.raises(BadMessage) as caught:
        await send(nsqd.tcp, "big", [b"a", b"b", b"x" * 101, b"c"])
    assert str(caught.value) == "E_BAD_MESSAGE PUB message too big 101 > 100"
    assert published(nsqd, "big") == 2


async def test_a_bad_topic_is_refused_in_the_words_for_one_record(nsqd: Daemon) -> None:
    with pytest.raises(BadTopic) as caught:
        await send(nsqd.tcp, "bad!", [b"a", b"b"])
    assert str(caught.value) == 'E_BAD_TOPIC PUB topic name "bad!" is not valid'


async def test_nobody_there() -> None:
    with pytest.raises(NotConnected, match="connection refused"):
        await send("127.0.0.1:1", "t", [b"a"])
