"""The pages beside the tutorials that a reader follows command by command (page_reader.py)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Timer

import pytest

from penstock.nsq.client.blocking import Consumer, Producer
from penstock.testing.daemons import Daemon, run_mqbroker, run_nsqd
from tests.page_reader import Reader, reader_of
from tools.harness.rocketmq.servers import run_servers
from tools.pages.documentation import DOCS, ROOT, blocks

pytestmark = pytest.mark.nightly

ABOUT_NSQ = ["nsqlookupd", "beyond-nsq", "backup", "operate"]
OF_GOS = ["from-nsqd", "nsqd"]
FOLLOWED = [*ABOUT_NSQ, *OF_GOS, "from-rocketmq"]
"""The pages of these tests; tests/page_blocks.py has them too."""
PATIENCE_S = 300.0


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
