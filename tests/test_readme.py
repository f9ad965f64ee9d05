"""The README's commands and programs, run as they stand there over daemons on other ports.

Those for Spark have tests in tests/spark.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from penstock.core.settings import java_properties
from penstock.testing.daemons import (
    Daemon,
    MqBroker,
    run_mqnamesrv,
    run_nsqd,
    run_nsqlookupd,
)
from tools.harness.processes import rest_of
from tools.pages.documentation import ROOT, blocks, commands, replaced

README = ROOT / "README.md"
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
PATIENCE_S = 300.0
DAEMONS = {"nsqlookupd", "nsqd", "mqnamesrv", "mqbroker"}
CONSUMED = {"curl", "to_nsq", "nsq_tail", "echo"}
"""Programs whose commands a reader gives one after another, beside penstock's that end."""
RUN_ELSEWHERE = {
    "make run": "tests/spark/programs/test_demo.py runs the command of this target",
    "make test": "it runs this test",
    ". .venv/bin/activate": "of a shell",
    "python3 -m venv venv && . venv/bin/activate": "tests/release/test_fresh.py",
    "pip install .": "make nightly-wheels installs what is built of the clone",
    "pip install '.[spark]'": "make nightly-wheels WITH=spark, and an archive with it",
    "pip wheel": "tests/release/test_built.py builds the same from the clone",
    "pip install dist/penstock_mq-*.whl": "tests/release/test_fresh.py",
    "mkdir -p run/nsqd": "the fixtures make the folder",
    "penstock pipeline run archive": "tests/spark/test_archive.py",
    "penstock pipeline init metrics": "tests/spark/test_tutorial.py",
    "penstock pipeline test metrics.toml": "tests/spark/test_tutorial.py",
    "penstock pipeline run metrics.toml": "tests/spark/test_tutorial.py",
}


def flags_of(program: str, number: int = 0) -> list[str]:
    """The flags of this command of a program in the README."""
    return [words[1:] for words in commands(README) if words[0] == program][number]


class Cluster:
    """A node and its directory in the place of those that the README starts."""

    def __init__(self, lookupd: Daemon, nsqd: Daemon) -> None:
        self.own = {
            "127.0.0.1:4150": nsqd.tcp, "127.0.0.1:4151": nsqd.http, "127.0.0.1:4161": lookupd.http,
        }  # fmt: skip

    def here(self, text: str) -> str:
        """The text with these addresses, also where the usual one is not named."""
        to_nodes = r"^(penstock (?:top|replay|dlq list))"
        text = re.sub(to_nodes, r"\1 --nsqd-http-address=127.0.0.1:4151", text)
        return replaced(text, self.own)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("run")
    with run_nsqlookupd(*flags_of("nsqlookupd")) as lookupd:
        own = {"127.0.0.1:4160": lookupd.tcp, "run/nsqd": str(folder)}
        with run_nsqd(*(replaced(flag, own) for flag in flags_of("nsqd"))) as nsqd:
            yield Cluster(lookupd, nsqd)


def program(word: str) -> str:
    """The README's program with this word in it."""
    (text,) = (text for text in blocks(README, "python") if word in text)
    return text


def said_until_ctrl_c(text: str, folder: Path, awaited: str) -> str:
    """The output of a program that gets Ctrl-C once it has said this; it must end well."""
    file = folder / "program.py"
    file.write_text(text)
    with subprocess.Popen(
        [sys.executable, "-u", str(file)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = ""
        patience = Timer(PATIENCE_S, process.kill)  # and nothing more is read then
        patience.start()
        try:
            while awaited not in said:
                line = process.stdout.readline()
                assert line, said
                said += line
            process.send_signal(signal.SIGINT)
            said += rest_of(process, 60)
        finally:
            patience.cancel()
            process.kill()
    assert process.returncode == 0, said
    return said


def test_commands_after_one_another_end_and_say_what_they_should(
    cluster: Cluster, tmp_path: Path
) -> None:
    section = README.read_text(encoding="utf-8").split("## Publish, look, consume")[1]
    lines = [
        line
        for block in re.findall(r"```sh\n(.*?)```", section.split("\n## ")[0], re.DOTALL)
        for line in block.splitlines()
        if shlex.split(line)[0] in CONSUMED | {"penstock"}
    ]
    said = ""
    for line in lines:
        ended = subprocess.run(cluster.here(line), shell=True, capture_output=True, text=True,
                               timeout=PATIENCE_S, env=ENVIRONMENT, cwd=tmp_path)  # fmt: skip
        assert ended.returncode == 0, (line, ended.stderr)
        said += ended.stdout
        if line.startswith("curl") and "/pub" in line:
            consume = program("nsqd_tcp_addresses")
            text = said_until_ctrl_c(cluster.here(consume), tmp_path, "b'hello world 1'\n")
            assert text == "b'hello world 1'\n"
    assert "hello tools\n" in said
    assert said.count("hello world 1\n") == 1, "replay reads what is consumed"
    assert "TOPIC / CHANNEL" in said


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
    return said_until_ctrl_c(text, folder, "\n")


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
            "run/nsqd": str(tmp_path),
        }  # fmt: skip
        flags = [replaced(flag, own) for flag in flags_of("nsqd", 1)]
        with run_nsqd(*flags, f"--rocketmq-config={config}") as nsqd:
            nsqd.wait_for(f"{name_server.rocketmq}: registered")
            said = sent_and_received(name_server.rocketmq, tmp_path)
    assert said == "orders b'tea' ['order-1']\n"


def test_every_command_is_run_by_a_test() -> None:
    ending = {("penstock", each) for each in ("top", "replay", "dlq")}
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
