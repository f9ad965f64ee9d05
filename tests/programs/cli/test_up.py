"""``penstock up`` as a user starts and stops it, without Spark, and ``penstock demo --stay``.

tests/spark/programs/test_demo.py has the demo up to where Spark has ended.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from penstock.cli import demo
from penstock.cli.live.daemons import Daemons
from penstock.cli.live.local_nodes import Ports
from penstock.nsq.client.blocking import Producer
from tools.harness.processes import left_over, marked, marked_environment, rest_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

PENSTOCK = [sys.executable, "-m", "penstock.cli.penstock"]
STOP_S_MAX = 60  # 0.2 s on an idle machine


class Up(NamedTuple):
    """A running ``penstock up`` whose daemons answer."""

    process: subprocess.Popen[str]
    nsqd_tcp: str
    nsqd_http: str
    lines: list[str]
    environment: dict[str, str]

    def rest(self) -> list[str]:
        """What it says from now to its end."""
        return rest_of(self.process, STOP_S_MAX).splitlines()

    def complaint(self) -> str:
        """What it has said to standard error, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def pid_of(self, daemon: str) -> int:
        (pid,) = [
            pid
            for pid, command in marked(self.environment).items()
            if f"penstock.cli.{daemon} " in command
        ]
        return pid


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with running(tmp_path / "up") as started:
        yield started


@contextmanager
def running(folder: Path, *flags: str) -> Iterator[Up]:
    """``penstock up`` with these flags, until the end of the block."""
    environment = marked_environment()
    command = [*PENSTOCK, "up", "--no-spark", "--free-ports", "--data-path", str(folder), *flags]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        found = None
        while found is None:
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr and process.stderr.read()
            found = re.search(r"nsqd: ready tcp (\d+)  http (\d+)$", lines[-1])
        yield Up(process, f"127.0.0.1:{found[1]}", f"127.0.0.1:{found[2]}", lines, environment)
        process.kill()
    assert left_over(environment, STOP_S_MAX) == {}


def test_plain_lines_with_counts_when_stdout_is_no_terminal_until_ctrl_c(up: Up) -> None:
    with Producer(up.nsqd_tcp) as producer:
        producer.multi_publish("t", [b"x"] * 321)
    assert up.process.stdout is not None
    while "published 321 (" not in (line := up.process.stdout.readline()):
        assert line
        up.lines.append(line)
    assert re.fullmatch(
        r"\[ +\d+\.\d s\] published 321 \(\d+/s\), topics 1, waiting in channels 0\n", line
    )
    assert "\x1b" not in "".join(up.lines)
    stops_everything(up, signal.SIGINT)


def stops_everything(up: Up, *numbers: int) -> None:
    """These signals, at once, are one orderly end."""
    assert len(marked(up.environment)) == 4
    for number in numbers:
        up.process.send_signal(number)
    said = [line.split("] ", 1)[1] for line in up.rest()]
    assert up.process.returncode == 0
    for daemon in ("nsqadmin", "nsqd", "nsqlookupd"):
        assert any(line.startswith(f"{daemon}: stopped ") for line in said)
    assert not any("killed" in line for line in said)
    assert marked(up.environment) == {}


def test_two_signals_at_once_are_one_and_leave_data_and_logs_in_the_folder(
    up: Up, tmp_path: Path
) -> None:
    """As ``timeout`` sends them, to the process and to its group."""
    with Producer(up.nsqd_tcp) as producer:
        producer.multi_publish("t", [b"x"] * 7)
    # Between two that are sent one after the other a busy machine may let seconds pass.
    stops_everything(up, signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT)
    metadata = json.loads((tmp_path / "up" / "nsqd" / "nsqd.dat").read_text())
    assert [topic["name"] for topic in metadata["topics"]] == ["t"]
    assert (tmp_path / "up" / "nsqd.log").stat().st_size


def is_missed(up: Up, daemon: str, pid: int) -> None:
    """A daemon that dies is named, and the rest stops."""
    os.kill(pid, signal.SIGKILL)
    said, complaint = "\n".join(up.rest()), up.complaint()
    assert up.process.returncode == 1
    assert complaint.startswith(f"penstock: {daemon} ended with code -9\n")
    assert complaint.endswith(f"/{daemon}.log\n")
    assert "Traceback" not in complaint
    assert f"{daemon}: failed" in said
    assert marked(up.environment) == {}


def test_a_daemon_that_dies_is_named_and_the_rest_stops(up: Up) -> None:
    is_missed(up, "nsqlookupd", up.pid_of("nsqlookupd"))


def test_several_nodes_are_named_counted_together_and_missed(tmp_path: Path) -> None:
    with running(tmp_path, "--nodes=2") as up:
        assert up.process.stdout is not None
        while "publish to" not in (line := up.process.stdout.readline()):
            assert line
            up.lines.append(line)
        found = re.search(r"publish to (\S+), (\S+); consume through nsqlookupd at \S+:\d+$", line)
        assert found
        assert found[1] == up.nsqd_tcp
        for count, address in enumerate(found.groups(), 1):
            with Producer(address) as producer:
                producer.multi_publish("t", [b"x"] * 100 * count)
        while "published 300 (" not in (line := up.process.stdout.readline()):
            assert line
        assert ", topics 1, " in line
        (second,) = [pid for pid, command in marked(up.environment).items() if "nsqd-2 " in command]
        is_missed(up, "nsqd-2", second)

    with running(tmp_path) as alone:
        said = "".join(alone.lines)
        assert f"not started: nsqd-2, with the messages in {tmp_path}; --nodes 2" in said
        stops_everything(alone, signal.SIGTERM)


def test_a_killed_up_leaves_nothing_behind(up: Up) -> None:
    up.process.kill()
    up.process.wait(STOP_S_MAX)
    assert left_over(up.environment, STOP_S_MAX) == {}


def test_a_signal_while_the_daemons_start(tmp_path: Path) -> None:
    environment = marked_environment()
    command = [*PENSTOCK, "up", "--no-spark", "--free-ports", "--data-path", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert "Penstock · " in process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said = rest_of(process, STOP_S_MAX)
        assert process.returncode == 0
    assert "Traceback" not in said
    assert left_over(environment, STOP_S_MAX) == {}


def test_ports_in_use_are_one_line_and_code_1(tmp_path: Path) -> None:
    listeners = []
    for port in (4151, 4161):
        try:
            listeners.append(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue  # somebody else's nsqd does as well
    try:
        refused = subprocess.run(
            [*PENSTOCK, "up", "--no-spark", "--data-path", str(tmp_path / "up")],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    finally:
        for listener in listeners:
            listener.close()
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert re.fullmatch(
        r"penstock: port (\d+, )*4151, (\d+, )*4161(, \d+)* already in use: .*--free-ports\n",
        refused.stderr,
    )
    assert not (tmp_path / "up").exists()


CARRIERS = [{"carrier": "UA", "events": 2, "distinct": 2, "first": 0, "last": 1, "delay": 2.0}]


class Played(demo._Demo):
    """A demo that has come to its proof: its daemons run, all its other children have ended."""

    admin = ""

    def play(self) -> list[dict[str, Any]]:
        daemons = Daemons(self._folder, Ports.free(), self._board)
        self._admin = Played.admin = daemons.admin
        daemons.start(self.children.all)
        daemons.create_topic("flights")
        self.published.done = self.consumed.done = 2
        return CARRIERS


def test_the_services_stay_until_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_Demo", Played)
    topics = []

    def look_and_interrupt(_: float) -> None:
        with urllib.request.urlopen(f"{Played.admin}api/topics", timeout=30) as answer:
            topics.extend(json.load(answer)["topics"])
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "time", SimpleNamespace(sleep=look_and_interrupt))
    demo.run_demo(0, 2, keep=True, stay=True)
    said = capsys.readouterr().out
    assert topics == ["flights"]
    proven, rest = said.split(" until Ctrl-C\n")
    assert "Proven: 2 rows in Parquet = 2 events published" in proven
    assert re.search(r"\nnsqadmin is at http://127\.0\.0\.1:\d+/$", proven)
    assert ": stopped" not in proven
    assert rest.startswith("stopping the services\n")
    assert "Everything of this run is in run/demo-" in rest
    assert rest.splitlines()[-1].startswith("Next: publish messages of your own")
