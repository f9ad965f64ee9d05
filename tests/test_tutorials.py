"""The pages that a reader follows command by command, run so over daemons on other ports.

A command must end well, a program is saved under the name in its first line, and a block of text
must stand in the output of the commands before it; one of a log in nsqd's, whatever the figures.
What would not end is not run: its flags must exist. Spark's tutorial has a test in tests/spark.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Timer

import pytest

from penstock.cli.flags.programs import programs
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.testing.daemons import Daemon, run_mqbroker, run_nsqd, run_nsqlookupd
from tools.harness.rocketmq.servers import run_servers
from tools.pages.documentation import DOCS, ROOT, all_blocks, blocks, replaced

ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
LASTING = ("nsqlookupd", "nsqd", "nsqadmin", "mqnamesrv", "mqbroker", "nsq_to_nsq")
"""Programs that a reader leaves running; the daemons among them run already, on other ports."""
ABOUT_NSQ = [
    "tutorial-nsq",
    "nsqlookupd",
    "beyond-nsq",
    "production",
    "backup",
    "rolling",
    "upgrade",
]
OF_GOS = ["from-nsqd", "nsqd"]
FOLLOWED = [*ABOUT_NSQ, *OF_GOS, "tutorial-rocketmq", "from-rocketmq"]
"""The pages of these tests; tests/page_blocks.py has them too."""
PATIENCE_S = 300.0
ENDING = {"--version", "-p"}
"""Flags with which they print something and end."""


class Reader:
    """Somebody with a folder and daemons of their own."""

    def __init__(self, folder: Path, addresses: dict[str, str], log: str = "") -> None:
        self.folder, self._addresses, self._log = folder, addresses, log
        self._known = {name: {flag.name for flag in flags} for name, flags in programs().items()}
        self._said = ""
        self.starts: dict[str, Callable[[], object]] = {}
        """What to do at commands that are not run."""

    def follow(self, page: Path) -> None:
        for language, text in all_blocks(page):
            if language == "python":
                self.save(text)
            elif language == "sh":
                for line in text.replace("\\\n", " ").splitlines():
                    self._command(line)
            elif language == "cron":
                self._command(text.split(maxsplit=6)[-1])
            elif language == "log":
                assert without_figures(text) in without_figures(self._log)
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
        if words[0] in LASTING and not ENDING & set(words):
            flags = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
            assert flags <= self._known[words[0]], line
            self.starts.get(line, lambda: None)()
            return
        words_of_bash = ["bash", "-c", self._here(strict(line))]
        ended = subprocess.run(words_of_bash, capture_output=True, text=True,
                               timeout=300, env=ENVIRONMENT, cwd=self.folder)  # fmt: skip
        fine = (0, 1) if words[:2] == ["penstock", "doctor"] else (0,)  # 1: there are faults
        assert ended.returncode in fine, (line, ended.stderr)
        self._said += ended.stdout

    def _here(self, text: str) -> str:
        return replaced(text, self._addresses)


def strict(line: str) -> str:
    """A command of curl so that it fails if it is refused."""
    return line if "--fail" in line else re.sub(r"^curl ", "curl --fail-with-body ", line)


def without_figures(log: str) -> str:
    """The log's lines without their figures, units of size and paths."""
    text = re.sub(r"^.*?(INFO: )", r"\1", log, flags=re.MULTILINE)
    return re.sub(r"\S*/\S*(?= |$|,)|[\d.]+( [kMG]?B| bytes)?", "_", text)


@contextmanager
def reader_of(data: Path) -> Iterator[Reader]:
    """A reader beside an nsqlookupd and an nsqd on this data path."""
    with (
        run_nsqlookupd() as lookupd,
        run_nsqd(
            f"--lookupd-tcp-address={lookupd.tcp}", "--retention-time=24h", data_path=data
        ) as nsqd,
    ):
        yield Reader(data.parent, addresses(lookupd, nsqd), nsqd.log())


def addresses(lookupd: Daemon, nsqd: Daemon) -> dict[str, str]:
    return {
        "127.0.0.1:4150": nsqd.tcp, "127.0.0.1:4151": nsqd.http, "127.0.0.1:4161": lookupd.http,
        "127.0.0.1:5150": nsqd.tcp, "127.0.0.1:5151": nsqd.http,
        "/var/lib/nsqd": str(nsqd.data_path), "/backups": f"{nsqd.data_path}-backups",
        "/var/lib/penstock": f"{nsqd.data_path}-other",
    }  # fmt: skip


@pytest.mark.parametrize("page", ABOUT_NSQ)
def test_a_page_about_nsq(page: str, tmp_path: Path) -> None:
    with reader_of(tmp_path / "data") as reader:
        reader.follow(DOCS / f"{page}.md")


@pytest.mark.parametrize("page", OF_GOS)
def test_a_page_about_a_node_that_was_gos(page: str, tmp_path: Path) -> None:
    gos = ROOT / "tests" / "fixtures" / "go-nsqd" / "clean-stop"
    shutil.copytree(gos, tmp_path / "data")
    (tmp_path / "nsqd.cfg").write_text('data_path = "/var/lib/nsq"\n')
    with reader_of(tmp_path / "data") as reader:
        reader.follow(DOCS / f"{page}.md")


def test_rocketmq_in_ten_minutes(tmp_path: Path) -> None:
    with run_servers() as servers:
        reader = Reader(tmp_path, {"127.0.0.1:9876": servers.address})
        reader.follow(DOCS / "tutorial-rocketmq.md")


def test_moving_from_rocketmq(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("brokerName=broker-b\nfileReservedTime=48\n")
    with run_servers() as servers, ExitStack() as stack:
        servers.make_topic("orders", queues=3)
        (tmp_path / "java-store" / "config").mkdir(parents=True)
        for name in ("topics.json", "subscriptionGroup.json"):
            found = servers.broker.data_path / "config" / name  # type: ignore[union-attr]
            table = json.loads(found.read_text())
            table.pop("checksum")  # which Java's have not
            (tmp_path / "java-store" / "config" / name).write_text(json.dumps(table))
        reader = Reader(tmp_path, {"127.0.0.1:9876": servers.address})
        reader.starts["mqbroker -c broker.conf"] = lambda: stack.enter_context(
            run_mqbroker(
                name_server=servers.address, data_path=tmp_path / "store", brokerName="broker-b"
            )
        )
        reader.follow(DOCS / "from-rocketmq.md")
        topics = (tmp_path / "store" / "config" / "topics.json").read_text()
        assert '"orders"' in topics


@pytest.mark.parametrize("name", ["pynsq_worker", "worker", "blocking_worker"])
def test_a_worker_before_and_after_the_move_from_pynsq(name: str, tmp_path: Path) -> None:
    with (
        run_nsqd() as nsqd,
        Producer(nsqd.tcp) as producer,
        Consumer("results", "c", nsqd_tcp_addresses=[nsqd.tcp]) as consumer,
        running(f"{name}.py", nsqd, tmp_path),
    ):
        message = None
        for _ in range(int(PATIENCE_S)):  # pynsq drops what comes before its writer is connected
            producer.publish("jobs", b"tea")
            if message := consumer.get(timeout=1):
                break
        assert message is not None
        assert message.body == b"TEA"
        message.finish()


def test_the_batches_of_a_program_that_comes_from_pynsq(tmp_path: Path) -> None:
    with run_nsqd() as nsqd, Producer(nsqd.tcp) as producer:
        producer.publish("jobs", b"tea")
        with running("batches.py", nsqd, tmp_path) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == b"bytes 3\n"


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_the_quick_start_of_the_client(number: int, tmp_path: Path) -> None:
    text = blocks(DOCS / "client.md", "python")[number]
    with run_nsqd() as nsqd:
        assert first_line(text.replace("127.0.0.1:4150", nsqd.tcp), tmp_path) == b"b'tea'\n"


@pytest.mark.parametrize("number", [0, 1], ids=["asyncio", "blocking"])
def test_the_quick_start_of_the_client_for_rocketmq(number: int, tmp_path: Path) -> None:
    text = blocks(DOCS / "rocketmq-client.md", "python")[number]
    with run_servers() as servers:
        assert first_line(text.replace("127.0.0.1:9876", servers.address), tmp_path) == b"b'tea'\n"


def first_line(text: str, folder: Path) -> bytes:
    """The first line that a program prints, which would go on for ever."""
    file = folder / "program.py"
    file.write_text(text)
    with started(file) as program:
        assert program.stdout is not None
        return program.stdout.readline()


@contextmanager
def running(name: str, nsqd: Daemon, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of the page about pynsq."""
    (text,) = (
        text for text in blocks(DOCS / "from-pynsq.md", "python") if text.startswith(f"# {name}\n")
    )
    file = Reader(folder, {"127.0.0.1:4150": nsqd.tcp}).save(text)
    with started(file) as program:
        yield program


@contextmanager
def started(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Python, killed at the end, or when it has said nothing for too long."""
    with subprocess.Popen([sys.executable, "-u", str(file)], stdout=subprocess.PIPE) as program:
        patience = Timer(PATIENCE_S, program.kill)
        patience.start()
        try:
            yield program
        finally:
            patience.cancel()
            program.kill()
