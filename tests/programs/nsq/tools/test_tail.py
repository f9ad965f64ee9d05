from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.tail import run
from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import wait_until
from tools.harness.processes import text_on

PROGRAM = [sys.executable, "-m", "penstock.cli.nsq_tail"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "--nsqd-tcp-address or --lookupd-http-address required"),
        (
            ["--nsqd-tcp-address=a", "--lookupd-http-address=b"],
            "use --nsqd-tcp-address or --lookupd-http-address not both",
        ),
        (["--nsqd-tcp-address=a"], "--topic required"),
    ],
)
def test_checks_in_upstreams_order(argv: list[str], text: str) -> None:
    with pytest.raises(ToolError) as caught:
        run(argv)
    assert str(caught.value) == text


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


def publish(nsqd: Daemon, topic: str, *bodies: bytes) -> None:
    url = f"http://{nsqd.http}/mpub?topic={topic}"
    urllib.request.urlopen(url, b"\n".join(bodies), timeout=30).close()


def channel(nsqd: Daemon, topic: str) -> dict[str, Any]:
    url = f"http://{nsqd.http}/stats?format=json&topic={topic}"
    found: dict[str, Any] = json.loads(urllib.request.urlopen(url, timeout=30).read())
    return dict(found["topics"][0]["channels"][0])


def until_left(nsqd: Daemon, topic: str, count: int) -> None:
    """Wait until so many messages are left and none is in flight: nsqd may read a program's last
    words after its end.
    """

    def figures() -> tuple[int, int]:
        found = channel(nsqd, topic)
        return found["depth"], found["in_flight_count"]

    wait_until(lambda: figures() == (count, 0), lambda: str(figures()))


def tail(nsqd: Daemon, *flags: str) -> list[str]:
    return [*PROGRAM, f"--nsqd-tcp-address={nsqd.tcp}", "--channel=c", *flags]


@pytest.mark.parametrize("flags", [["-n", "2"], ["-n", "2", "--max-in-flight=1"]])
def test_so_many_and_all_of_them_finished(nsqd: Daemon, flags: list[str]) -> None:
    topic = f"n{len(flags)}"
    publish(nsqd, topic, b"one", b"two", b"three")
    done = subprocess.run(tail(nsqd, f"--topic={topic}", *flags), capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"one\ntwo\n")
    until_left(nsqd, topic, 1)


@pytest.mark.parametrize("flags", [[], ["-n", "-1"]])
def test_two_topics_until_a_signal(nsqd: Daemon, flags: list[str]) -> None:
    publish(nsqd, "ta", b"A\xff")
    publish(nsqd, "tb", b"B")
    words = tail(nsqd, "--topic=ta", "--topic=tb", "--print-topic", *flags)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout is not None
        lines = {program.stdout.readline(), program.stdout.readline()}
        program.terminate()
        assert program.wait(60) == 0
    assert lines == {b"ta | A\xff\n", b"tb | B\n"}
    until_left(nsqd, "ta", 0)


def test_a_reader_who_has_enough_ends_it(nsqd: Daemon) -> None:
    publish(nsqd, "enough", b"one", b"two")
    words = tail(nsqd, "--topic=enough")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.readline() == b"one\n"
        program.stdout.close()
        assert program.wait(60) == -signal.SIGPIPE
        assert b"Traceback" not in program.stderr.read()


def test_colours_on_a_terminal(nsqd: Daemon) -> None:
    publish(nsqd, "tty", b'{"a":"b\x1b"}')
    terminal, side = pty.openpty()
    words = tail(nsqd, "--topic=tty", "-n", "1", "--print-topic")
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    done = subprocess.run(
        words, stdout=side, stderr=subprocess.DEVNULL, env=environment, timeout=60
    )
    os.close(side)
    shown = text_on(terminal)
    assert done.returncode == 0
    assert "\x1b[36mtty\x1b[0m" in shown
    assert "\\x1b" in shown


def test_a_node_that_is_not_there(nsqd: Daemon) -> None:
    words = [*PROGRAM, "--nsqd-tcp-address=127.0.0.1:1", "--topic=t"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1][20:] == "dial tcp 127.0.0.1:1: connect: connection refused"
