"""The README's commands and programs, run as they stand there over daemons on other ports.

Its program for Spark has a test of its own in tests/spark.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.flags.programs import programs
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.pages import ROOT, blocks, commands
from tests.programs.rocketmq.client.servers import run_servers

README = ROOT / "README.md"
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
CONSUMED = {"curl", "to_nsq", "nsq_tail", "echo"}
"""Programs whose commands a reader gives one after another, beside penstock's that end."""


class Cluster:
    """A node and its directory in the place of those that the README starts."""

    def __init__(self, lookupd: Daemon, nsqd: Daemon) -> None:
        self.own = {
            "127.0.0.1:4150": nsqd.tcp, "127.0.0.1:4151": nsqd.http, "127.0.0.1:4161": lookupd.http,
        }  # fmt: skip
        self.nsqd = nsqd

    def here(self, text: str) -> str:
        """The text with these addresses, also where the usual one is not named."""
        to_nodes = r"^(penstock (?:top|replay|dlq list))"
        text = re.sub(to_nodes, r"\1 --nsqd-http-address=127.0.0.1:4151", text)
        for usual, address in self.own.items():
            text = text.replace(usual, address)
        return text


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with (
        run_nsqlookupd() as lookupd,
        run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}", "--retention-time=24h") as nsqd,
    ):
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
        while awaited not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        try:
            said += process.communicate(timeout=60)[0]
        finally:
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
                               timeout=60, env=ENVIRONMENT, cwd=tmp_path)  # fmt: skip
        assert ended.returncode == 0, (line, ended.stderr)
        said += ended.stdout
        if line.startswith("curl") and "/pub" in line:
            consume = program("nsqd_tcp_addresses")
            text = said_until_ctrl_c(cluster.here(consume), tmp_path, "b'hello world 1'\n")
            assert text == "b'hello world 1'\n"
    assert "hello tools\n" in said
    assert said.count("hello world 1\n") == 1, "replay reads what is consumed"
    assert "TOPIC / CHANNEL" in said


def test_rocketmqs_program_sends_and_receives(tmp_path: Path) -> None:
    with run_servers() as servers:
        text = program("rocketmq.client").replace("127.0.0.1:9876", servers.address)
        said = said_until_ctrl_c(text, tmp_path, "\n")
    assert said == "orders b'tea' ['order-1']\n"


def test_flags_of_the_daemons_exist() -> None:
    known = {name: {flag.name for flag in flags} for name, flags in programs().items()}
    seen = set()
    for words in commands(README):
        if words[0] in known:
            seen.add(words[0])
            given = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
            assert given <= known[words[0]], words
    assert {"nsqd", "nsqlookupd", "mqnamesrv", "mqbroker", "nsq_tail"} <= seen
