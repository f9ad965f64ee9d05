"""The tutorials' blocks, run one after another as a reader does, over daemons on other ports.

A command must end well, a program is saved under the name in its first line, and a block of text
must stand in the output of the commands before it. That of Spark has a test in tests/spark.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.flags.programs import programs
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.testing.daemons import run_nsqd, run_nsqlookupd
from tests.pages import DOCS, all_blocks, blocks
from tests.programs.rocketmq.client.servers import run_servers

ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
DAEMONS = ("nsqlookupd", "nsqd", "nsqadmin", "mqnamesrv", "mqbroker")


class Reader:
    """Somebody with a folder and daemons of their own."""

    def __init__(self, folder: Path, addresses: dict[str, str]) -> None:
        self.folder, self._addresses = folder, addresses
        self._known = {name: {flag.name for flag in flags} for name, flags in programs().items()}
        self._said = ""

    def follow(self, page: Path) -> None:
        for language, text in all_blocks(page):
            if language == "python":
                self.save(text)
            elif language == "sh":
                for line in text.splitlines():
                    self._command(line)
            else:
                assert language == "text"
                assert text.rstrip() in self._said
                self._said = ""

    def save(self, text: str) -> Path:
        found = re.match(r"# (\w+\.py)\n", text)
        assert found, text
        file = self.folder / found[1]
        file.write_text(self._here(text))
        return file

    def _command(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        if words[0] in DAEMONS:  # they run already, on other ports
            flags = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
            assert flags <= self._known[words[0]], line
            return
        ended = subprocess.run(self._here(line), shell=True, capture_output=True, text=True,
                               timeout=120, env=ENVIRONMENT, cwd=self.folder)  # fmt: skip
        assert ended.returncode == 0, (line, ended.stderr)
        self._said += ended.stdout

    def _here(self, text: str) -> str:
        for usual, address in self._addresses.items():
            text = text.replace(usual, address)
        return text


@pytest.fixture
def nsq(tmp_path: Path) -> Iterator[Reader]:
    with (
        run_nsqlookupd() as lookupd,
        run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}", "--retention-time=24h") as nsqd,
    ):
        yield Reader(tmp_path, {
            "127.0.0.1:4150": nsqd.tcp, "127.0.0.1:4151": nsqd.http, "127.0.0.1:4161": lookupd.http,
        })  # fmt: skip


def test_nsq_in_ten_minutes(nsq: Reader) -> None:
    nsq.follow(DOCS / "tutorial-nsq.md")


def test_rocketmq_in_ten_minutes(tmp_path: Path) -> None:
    with run_servers() as servers:
        reader = Reader(tmp_path, {"127.0.0.1:9876": servers.address})
        reader.follow(DOCS / "tutorial-rocketmq.md")


def test_the_worker_that_comes_from_pynsq(tmp_path: Path) -> None:
    (text,) = blocks(DOCS / "from-pynsq.md", "python")
    with run_nsqd() as nsqd, Producer(nsqd.tcp) as producer:
        producer.publish("jobs", b"tea")
        file = Reader(tmp_path, {"127.0.0.1:4150": nsqd.tcp}).save(text)
        with subprocess.Popen([sys.executable, str(file)]) as worker:
            with Consumer("results", "c", nsqd_tcp_addresses=[nsqd.tcp]) as consumer:
                message = consumer.get(timeout=60)
                assert message is not None
                assert message.body == b"TEA"
                message.finish()
            worker.terminate()
