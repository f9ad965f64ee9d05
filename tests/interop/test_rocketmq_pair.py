"""RocketMQ's own Java clients live through the end of a master: they read what they have not had
from its slave, and send again once that is promoted.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.cli.promote import run_promote
from penstock.cluster.access import Access
from tests.copies import until
from tests.rocketmq_pair import QUEUES, TOPIC, brokers, committed, running_pair, until_whole, wait
from tools.harness.rocketmq.java import FOLDERS, JVM, compile_java, missing
from tools.harness.rocketmq.servers import make_topic

from .java_sources import java_source

GROUP = "billing"
PART = 10


class JavaClients:
    """A process with a producer and a consumer, which takes steps and says what it is given."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.got: list[int] = []
        self._said: list[str] = []
        self._process = process
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def step(self, line: str) -> None:
        """Take a step, and wait until it is done."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(f"{line}\n")
        stdin.flush()
        self.wait_for(line)

    def wait_for(self, line: str) -> None:
        wait(lambda: line in self._said or self._process.poll() is not None)
        assert line in self._said, "the program has ended"

    def wait_for_all(self, count: int) -> None:
        """Wait until the consumer was given the first so many messages."""
        wait(lambda: set(self.got) >= set(range(count)))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, number = line.strip().partition(" ")
            if word == "got":
                self.got.append(int(number))
            else:
                self._said.append(line.strip())


@contextmanager
def java_clients(version: str, name_server: str, home: Path) -> Iterator[JavaClients]:
    class_path = compile_java(FOLDERS[version], home / "classes", java_source("Pair"))
    properties = {
        "rocketmq.client.rebalance.waitInterval": 1000,
        "rocketmq.client.logRoot": home / "logs",
        "user.home": home,
    }
    command = ["nice", "java", *JVM, *(f"-D{key}={value}" for key, value in properties.items()),
               "-cp", class_path, "Pair", name_server, TOPIC, GROUP]  # fmt: skip
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            clients = JavaClients(process)
            clients.wait_for("ready")
            yield clients
        finally:
            process.kill()


@pytest.mark.parametrize("version", FOLDERS or ["none"])
def test_clients_read_from_the_slave_and_send_again_after_promotion(
    version: str, tmp_path: Path
) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running_pair() as pair:
        make_topic(pair.old, TOPIC, QUEUES)
        with java_clients(version, pair.name_server.rocketmq, tmp_path) as clients:
            clients.step(f"send 0 {PART}")
            clients.wait_for_all(PART)
            wait(lambda: sum(committed(pair.new, GROUP)) == PART, pair.new)
            clients.step("suspend")
            clients.step(f"send {PART} {PART}")
            until_whole(pair)
            pair.old.kill()
            wait(lambda: brokers(pair.name_server, TOPIC) == {"1": pair.new.rocketmq})
            clients.step("resume")
            clients.wait_for_all(2 * PART)  # there is nobody but the slave to have them from
            run_promote(pair.new.copies, Access())
            until(pair.new, role="primary", epoch=2)
            clients.step(f"send {2 * PART} {PART}")
            clients.wait_for_all(3 * PART)
            wait(lambda: sum(committed(pair.new, GROUP)) == 3 * PART, pair.new)
            clients.step("end")
        assert set(clients.got) == set(range(3 * PART)), "none invented"
        # What was consumed before the master died, and was known to its slave, came once.
        assert all(clients.got.count(number) == 1 for number in range(PART))
