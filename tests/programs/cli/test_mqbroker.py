"""The mqbroker command as a user starts it."""

from __future__ import annotations

import logging
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.mqbroker import node_options
from penstock.core.units import HOUR, MILLISECOND
from penstock.rocketmq.broker.settings import BrokerSettings
from penstock.storage.durability import Durability
from penstock.storage.files.disk import DirectoryLock
from tools.harness.rocketmq.raw_client import RawClient

COMMAND = [sys.executable, "-m", "penstock.cli.mqbroker"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60)


def test_it_serves_until_sigterm(tmp_path: Path) -> None:
    config = tmp_path / "broker.properties"
    config.write_text(
        "listenPort=0\nbindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nbrokerName=b\nodd=1\n"
        f"storePathRootDir={tmp_path}/new/store\n"
    )
    with subprocess.Popen(
        [*COMMAND, "-c", str(config), "-n", "127.0.0.1:1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        address, _, rest = line.removeprefix("The broker[b, ").partition("] ")
        assert rest == "boot success. serializeType=JSON and name server is 127.0.0.1:1\n"
        client = RawClient(int(address.rpartition(":")[2]))
        assert client.ask(21).code == 0
        log = ""
        while "not registered" not in log:  # what it tries beside all else
            line = process.stderr.readline()
            assert line, log
            log += line
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        log += process.stderr.read()
        assert "the property odd is unknown" in log
        assert "name server 127.0.0.1:1: not registered" in log
        assert "TCP: listening" not in log
        assert re.search(r"INFO: mqbroker of Penstock \S+, as RocketMQ 4\.9\.8; store /", log)
        assert "NSQ" not in log
        assert "nsqd" not in log
        assert log.endswith(" INFO: bye\n")
        client.close()
    assert (tmp_path / "new" / "store" / "config" / "topics.json").exists()


def test_printing_the_properties() -> None:
    printed = run("-p")
    assert printed.returncode == 0
    assert "listenPort=10911\n" in printed.stdout
    important = run("-m")
    assert set(important.stdout.splitlines()) < set(printed.stdout.splitlines())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listenPort=x", "listenPort must be a number"),
        ("brokerRole=MASTER", "brokerRole must be ASYNC_MASTER, SYNC_MASTER or SLAVE"),
        ("brokerRole=SLAVE", "brokerRole=SLAVE needs a brokerId greater than 0"),
        ("tls.server.mode=enforcing", "TLS needs both"),
        ("namesrvAddr=x", "is no host:port"),
        ("listenPort=99999", "listenPort must be 0 to 65535"),
        ("brokerName=", "brokerName must not be empty"),
        ("nsqTcpAddress=4150", "the broker cannot start - listen (4150) failed"),
        ("storePathRootDir=/dev/null", "cannot make storePathRootDir - /dev/null: "),
    ],
)
def test_what_cannot_start_says_so_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    config = tmp_path / "bad"
    config.write_text(f"storePathRootDir={tmp_path}/store\nlistenPort=0\n{text}\n")
    ended = run("-c", str(config), "--log-level", "fatal")
    assert ended.returncode == 1
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_what_another_program_uses(tmp_path: Path) -> None:
    config = tmp_path / "taken"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config.write_text(
            f"listenPort={port}\nbindAddress=127.0.0.1\nstorePathRootDir={tmp_path}\n"
        )
        ended = run("-c", str(config))
        assert ended.returncode == 1
        assert ended.stderr.endswith("in use; listenPort and bindAddress set another\n")
    lock = DirectoryLock(str(tmp_path))
    try:
        ended = run("-c", str(config))
    finally:
        lock.release()
    assert ended.returncode == 1
    assert f"another broker or nsqd uses the store {tmp_path}: stop it" in ended.stderr


def test_what_is_wrong_on_the_command_line(tmp_path: Path) -> None:
    assert "failed to load" in run("-c", str(tmp_path / "none")).stderr
    assert run("--log-level", "loud").returncode == 2
    assert "is no host:port" in run("-n", "nowhere").stderr


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
