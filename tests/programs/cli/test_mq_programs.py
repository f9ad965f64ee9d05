"""RocketMQ's programs as users start them: what they print, and starts that are refused."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.cli.mqbroker import node_options
from penstock.core.units import HOUR, MILLISECOND
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.storage.durability import Durability
from penstock.storage.files.disk import DirectoryLock
from tools.harness.ports import unused_address
from tools.harness.rocketmq.raw_client import RawClient

HEAVY = (
    "numpy", "urllib.request", "asyncio", "uvloop", "cyclopts", "penstock.broker",
    "penstock.storage.log", "penstock.rocketmq.broker", "penstock.rocketmq.client.aio",
    "penstock.rocketmq.client.consume.group",
)  # fmt: skip


def words_of(program: str, *words: str) -> list[str]:
    return [sys.executable, "-m", f"penstock.cli.{program}", *words]


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words_of(program, *words), capture_output=True, text=True, timeout=60)


@contextmanager
def started(program: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """A server with its first line; it is ended, and what it logs is in the list afterwards."""
    with subprocess.Popen(
        words_of(program, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        log: list[str] = []
        yield process, process.stdout.readline(), log
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        log += process.stderr.readlines()


def test_a_broker_serves_until_sigterm(tmp_path: Path) -> None:
    config = tmp_path / "broker.properties"
    config.write_text(
        "listenPort=0\nbindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nbrokerName=b\nodd=1\n"
        f"storePathRootDir={tmp_path}/new/store\n"
    )
    with started("mqbroker", "-c", str(config), "-n", "127.0.0.1:1") as (process, line, log):
        address, _, rest = line.removeprefix("The broker[b, ").partition("] ")
        assert rest == "boot success. serializeType=JSON and name server is 127.0.0.1:1\n"
        client = RawClient(int(address.rpartition(":")[2]))
        assert client.ask(21).code == 0
        assert process.stderr is not None
        while not log or "not registered" not in log[-1]:  # what it tries beside all else
            log.append(process.stderr.readline())
            assert log[-1], log
    client.close()
    whole = "".join(log)
    assert "the property odd is unknown" in whole
    assert "name server 127.0.0.1:1: not registered" in whole
    assert re.search(r"INFO: mqbroker of Penstock \S+, as RocketMQ 4\.9\.8; store /", whole)
    assert not re.search("TCP: listening|NSQ|nsqd", whole)
    assert whole.endswith(" INFO: bye\n")
    assert (tmp_path / "new" / "store" / "config" / "topics.json").exists()


def test_a_name_server_serves_until_sigterm(tmp_path: Path) -> None:
    config = tmp_path / "ns.properties"
    config.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path}/kv\nodd=1\n")
    with started("mqnamesrv", "-c", str(config)) as (_, line, log):
        assert line.startswith("The Name Server boot success, port ")
        client = RawClient(int(line.split()[-1]))
        assert client.ask(206).code == 0
    client.close()
    assert "the property odd is unknown" in "".join(log)


def test_properties_are_printed_and_a_file_of_something_else_is_said_to_be_one(
    tmp_path: Path,
) -> None:
    printed = run("mqbroker", "-p")
    assert printed.returncode == 0
    assert "listenPort=10911\n" in printed.stdout
    important = run("mqbroker", "-m")
    assert set(important.stdout.splitlines()) < set(printed.stdout.splitlines())
    notes = tmp_path / "notes.txt"
    notes.write_text("buy milk\n")
    printed = run("mqnamesrv", "-p", "-c", str(notes))
    assert (printed.returncode, printed.stdout[:16]) == (0, "listenPort=9876\n")
    assert printed.stderr.splitlines()[-1].endswith(
        f"{notes} sets nothing that this program knows, so all properties have their defaults: "
        "name the right file with -c"
    )
    notes.write_text("buy milk\nlistenPort=1\n")
    assert "sets nothing" not in run("mqnamesrv", "-p", "-c", str(notes)).stderr


@pytest.mark.parametrize(
    ("program", "text", "said"),
    [
        ("mqbroker", "listenPort=x", "listenPort must be a number"),
        ("mqbroker", "brokerRole=MASTER", "brokerRole must be ASYNC_MASTER, SYNC_MASTER or SLAVE"),
        ("mqbroker", "brokerRole=SLAVE", "brokerRole=SLAVE needs a brokerId greater than 0"),
        ("mqbroker", "tls.server.mode=enforcing", "TLS needs both"),
        ("mqbroker", "namesrvAddr=x", "is not a host:port"),
        ("mqbroker", "listenPort=99999", "listenPort must be 0 to 65535"),
        ("mqbroker", "brokerName=", "brokerName must not be empty"),
        ("mqbroker", "nsqTcpAddress=4150", "the broker cannot start - listen (4150) failed"),
        ("mqbroker", "storePathRootDir=/dev/null", "cannot make storePathRootDir - /dev/null: "),
        ("mqbroker", None, "failed to load"),
        ("mqnamesrv", "listenPort=x", "listenPort must be a number"),
        ("mqnamesrv", None, "failed to load"),
    ],
)
def test_what_cannot_start_says_so_in_one_line(
    tmp_path: Path, program: str, text: str | None, said: str
) -> None:
    config = tmp_path / "bad"
    if text is not None:
        config.write_text(f"storePathRootDir={tmp_path}/store\nlistenPort=0\n{text}\n")
    ended = run(program, "-c", str(config), "--log-level", "fatal")
    assert ended.returncode == 1
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_what_is_wrong_on_the_command_line() -> None:
    for program in ("mqbroker", "mqnamesrv"):
        assert run(program, "--log-level", "loud").returncode == 2
    assert "is not a host:port" in run("mqbroker", "-n", "nowhere").stderr


def test_what_another_program_uses(tmp_path: Path) -> None:
    config = tmp_path / "taken"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config.write_text(
            f"listenPort={port}\nbindAddress=127.0.0.1\nstorePathRootDir={tmp_path}\n"
        )
        ended = run("mqbroker", "-c", str(config))
        assert ended.returncode == 1
        assert ended.stderr.endswith("in use; listenPort and bindAddress set another\n")
    lock = DirectoryLock(str(tmp_path))
    try:
        ended = run("mqbroker", "-c", str(config))
    finally:
        lock.release()
    assert ended.returncode == 1
    assert f"another broker or nsqd uses the store {tmp_path}: stop it" in ended.stderr


def test_the_nsqd_beneath() -> None:
    settings = BrokerSettings()
    settings.update(
        {
            "flushDiskType": "SYNC_FLUSH",
            "flushIntervalCommitLog": "70",
            "nsqHttpAddress": "127.0.0.1:0",
            "nsqGroupRetention": "48",
        }
    )
    options = node_options(settings, logging.INFO)
    options.check()
    assert options.durability is Durability.FSYNC
    assert options.sync_timeout == 70 * MILLISECOND
    assert (options.tcp_address, options.http_address) == ("", "127.0.0.1:0")
    assert options.metrics
    assert options.group_retention == 48 * HOUR


def test_mqadmin_imports_nothing_heavy_to_ask_a_server() -> None:
    """A start takes a fifth of a second, most of it Python's own."""
    shown = run("mqadmin", "help", "topicList")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("usage: mqadmin topicList ")
    program = (
        "import sys; from penstock.rocketmq.mqadmin.program import run; "
        f"run(['topicList', '-n', {unused_address()!r}]); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "[]\n"


def test_a_reader_that_has_enough_ends_mqadmin_without_a_word() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    for words in ([], ["help", "topicList"], ["topicList", "--json", "-n", unused_address()]):
        command = words_of("mqadmin", *words)
        found = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
        assert (found.returncode, found.stderr) == (0, b"")
    os.close(writer)
