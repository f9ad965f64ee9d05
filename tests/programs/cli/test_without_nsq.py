"""A broker and its slave without NSQ's ports load none of NSQ's code, whatever they do."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.cli.promote import run_promote
from penstock.cluster.access import Access
from penstock.core.settings import java_properties
from penstock.rocketmq.client import Message
from penstock.rocketmq.client.blocking import Producer
from penstock.testing.daemons import run_mqnamesrv
from tests.programs.cli.test_starts import imported
from tests.rocketmq_pair import CONFIG, QUICK, SECONDS, TOPIC, consume
from tools.harness.ports import unused_address


@contextmanager
def running(folder: Path, name_server: str, **properties: object) -> Iterator[Path]:
    """A broker without NSQ's ports until the end of the block, and its log, which names each
    module that it imports.
    """
    folder.mkdir()
    config, log = folder / "broker.properties", folder / "log"
    config.write_text(java_properties.dumps({
        **QUICK, "brokerName": "b", "brokerIP1": "127.0.0.1", "bindAddress": "127.0.0.1",
        "listenPort": 0, "namesrvAddr": name_server, "storePathRootDir": folder / "store",
        "autoCreateTopicEnable": "true", **properties,
    }))  # fmt: skip
    command = ["-X", "importtime", "-m", "penstock.cli.mqbroker", "-c", str(config)]
    with (
        log.open("w") as stderr,
        subprocess.Popen([sys.executable, *command], stderr=stderr, stdout=subprocess.PIPE,
                         text=True) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            assert "boot success" in process.stdout.readline(), log.read_text()
            yield log
        finally:
            process.terminate()
    assert process.returncode == 0, log.read_text()


def of_nsq(log: Path) -> set[str]:
    """The modules of NSQ that a broker has imported."""
    names = imported(log.read_text().splitlines())
    assert "penstock.rocketmq.broker.daemon" in names
    return {each for each in names if each.startswith("penstock.nsq")}


def wait_until_whole(slave: str) -> None:
    """Wait until a slave has all that its master has."""
    host, _, port = slave.rpartition(":")
    deadline = time.monotonic() + SECONDS
    answer: dict[str, object] = {}
    while time.monotonic() < deadline and not answer.get("whole"):
        connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
        connection.request("GET", "/replication")
        answer = json.loads(connection.getresponse().read())
        connection.close()
        time.sleep(0.05)
    assert answer["whole"], answer


def test_a_master_and_a_slave_that_is_promoted_load_nothing_of_nsq(tmp_path: Path) -> None:
    master, slave = unused_address(), unused_address()
    ports = [each.rpartition(":")[2] for each in (master, slave)]
    with (
        run_mqnamesrv() as servers,
        running(tmp_path / "master", servers.rocketmq, haListenPort=ports[0]) as log,
        Producer("desk", servers.rocketmq, config=CONFIG) as producer,
        running(tmp_path / "slave", servers.rocketmq, haListenPort=ports[1], brokerRole="SLAVE",
                brokerId=1, haMasterAddress=master) as log_of_slave,
    ):  # fmt: skip
        for number in range(8):
            producer.send(Message(TOPIC, b"%d" % number, keys=f"key-{number}"))
        assert len(consume(servers, "billing", 8)) == 8
        wait_until_whole(slave)
        run_promote(slave, Access())
    assert [of_nsq(each) for each in (log, log_of_slave)] == [set(), set()]
