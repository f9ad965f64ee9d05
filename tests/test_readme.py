"""The README's commands and programs, run as they stand there over daemons on other ports.

Those for Spark have tests in tests/spark.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.core.settings import java_properties
from penstock.testing.daemons import (
    Daemon,
    MqBroker,
    run_mqnamesrv,
    run_nsqd,
    run_nsqlookupd,
)
from tools.pages.documentation import ROOT, blocks, commands, replaced

README = ROOT / "README.md"
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
PATIENCE_S = 300.0
DAEMONS = {"nsqlookupd", "nsqd", "mqnamesrv", "mqbroker"}
CONSUMED = {"curl", "nsq_tail"}
"""Programs whose commands a reader gives one after another, beside penstock's that end."""
RUN_ELSEWHERE = {
    "make run": "tests/spark/programs/test_demo.py runs the command of this target",
    "make test": "it runs this test",
    "python3 -m venv venv && . venv/bin/activate && pip install .": "tests/release/test_fresh.py",
    "penstock up": "tests/programs/cli/test_up.py",
    "penstock pipeline run archive": "tests/spark/test_archive.py",
    "penstock pipeline init metrics": "tests/spark/test_tutorial.py",
    "penstock pipeline test metrics.toml": "tests/spark/test_tutorial.py",
    "penstock pipeline run metrics.toml": "tests/spark/test_tutorial.py",
}


def flags_of(program: str) -> list[str]:
    """The flags of this program in the README."""
    (found,) = (words[1:] for words in commands(README) if words[0] == program)
    return found


class Cluster:
    """A node and its directory in the place of those that the README starts."""

    def __init__(self, lookupd: Daemon, nsqd: Daemon) -> None:
        self.own = {
            "127.0.0.1:4150": nsqd.tcp, "127.0.0.1:4151": nsqd.http, "127.0.0.1:4161": lookupd.http,
        }  # fmt: skip

    def here(self, text: str) -> str:
        """The text with these addresses, also where the usual one is not named."""
        to_nodes = r"^(penstock replay)"
        text = re.sub(to_nodes, r"\1 --nsqd-http-address=127.0.0.1:4151", text)
        return replaced(text, self.own)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """What `penstock up` starts, without the archive."""
    with (
        run_nsqlookupd() as lookupd,
        run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}", "--metrics") as nsqd,
    ):
        yield Cluster(lookupd, nsqd)


def program(word: str) -> str:
    """The README's program with this word in it."""
    (text,) = (text for text in blocks(README, "python") if word in text)
    return text


def said_by(text: str, folder: Path) -> str:
    """The output of a program, which must end well."""
    file = folder / "program.py"
    file.write_text(text)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True,
                          timeout=PATIENCE_S)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_after_one_another_end_and_say_what_they_should(
    cluster: Cluster, tmp_path: Path
) -> None:
    section = README.read_text(encoding="utf-8").split("## Try it")[1]
    lines = [
        line
        for block in re.findall(r"```sh\n(.*?)```", section.split("\n## ")[0], re.DOTALL)
        for line in block.splitlines()
        if shlex.split(line)[0] in CONSUMED or line.startswith("penstock replay")
    ]
    said = ""
    for line in lines:
        ended = subprocess.run(cluster.here(line), shell=True, capture_output=True, text=True,
                               timeout=PATIENCE_S, env=ENVIRONMENT, cwd=tmp_path)  # fmt: skip
        assert ended.returncode == 0, (line, ended.stderr)
        said += ended.stdout
    assert said == "OKhello world 1\nhello world 1\n", "consumed, and read again"
    assert said_by(cluster.here(program("nsqd_tcp_addresses")), tmp_path) == "b'hello'\n"


@contextmanager
def mqbroker(name_server: str, home: Path) -> Iterator[MqBroker]:
    """The README's broker, which keeps all in its user's home."""
    flags = [replaced(flag, {"127.0.0.1:9876": name_server}) for flag in flags_of("mqbroker")]
    words = [sys.executable, "-m", "penstock.cli.mqbroker", *flags]
    broker = MqBroker(words, {"brokerIP1": "127.0.0.1"}, home / "store", home)
    broker.start()
    try:
        broker.wait_for("registered")
        yield broker
    finally:
        broker.close()


def sent_and_received(name_server: str, folder: Path) -> str:
    text = program("rocketmq.client").replace("127.0.0.1:9876", name_server)
    return said_by(text, folder)


def test_rocketmqs_program_sends_to_the_broker_and_receives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with run_mqnamesrv() as name_server, mqbroker(name_server.rocketmq, tmp_path):
        said = sent_and_received(name_server.rocketmq, tmp_path)
        assert (tmp_path / "store" / "topics").is_dir()
    assert said == "orders b'tea' ['order-1']\n"


def test_rocketmqs_program_sends_to_the_nsqd_that_opens_that_port(tmp_path: Path) -> None:
    config = tmp_path / "rocketmq.properties"
    config.write_text(java_properties.dumps({"brokerIP1": "127.0.0.1"}))
    with run_mqnamesrv() as name_server:
        own = {
            "127.0.0.1:9876": name_server.rocketmq, "0.0.0.0:10911": "127.0.0.1:0",
            "run/up/nsqd": str(tmp_path),
        }  # fmt: skip
        (line,) = re.findall(r"`nsqd (--data-path[^`]*)`", README.read_text(encoding="utf-8"))
        flags = [replaced(flag, own) for flag in line.split()]
        with run_nsqd(*flags, f"--rocketmq-config={config}") as nsqd:
            nsqd.wait_for(f"{name_server.rocketmq}: registered")
            said = sent_and_received(name_server.rocketmq, tmp_path)
    assert said == "orders b'tea' ['order-1']\n"


def test_it_is_read_in_one_go() -> None:
    assert README.read_text(encoding="utf-8").count("\n") <= 150


def test_it_opens_with_the_two_commands() -> None:
    assert commands(README)[:2] == [["make", "run"], ["make", "test"]]


def test_every_command_is_run_by_a_test() -> None:
    ending = {("penstock", "replay")}
    left = [
        shlex.join(words)
        for words in commands(README)
        if words[0] not in DAEMONS | CONSUMED and tuple(words[:2]) not in ending
    ]
    known = {shlex.join(shlex.split(each)): False for each in RUN_ELSEWHERE}
    for command in left:
        found = [each for each in known if command.startswith(each)]
        assert found, f"run by no test: {command}"
        known[found[0]] = True
    assert all(known.values()), "no longer in the README"
