"""A local Kafka to measure beside: one broker that is its own controller, on loopback."""

from __future__ import annotations

import base64
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.spark.java import find_java

START_S_MAX = 60.0
PARTITIONS = 8
"""Partitions of a topic that is made by its first message."""
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/log
num.partitions={partitions}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


@contextmanager
def run_kafka(jars: Path) -> Iterator[str]:
    """The address of a Kafka with an empty log, started from a folder of its jars; it is killed at
    the end.
    """
    java = [str(find_java().path), "-Xmx1g", "-cp", f"{jars}/*"]
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as folder:
        port, controller = _free_port(), _free_port()
        file = Path(folder, "server.properties")
        config = str(file)
        file.write_text(_PROPERTIES.format(port=port, controller=controller, folder=folder,
                                           partitions=PARTITIONS))  # fmt: skip
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        subprocess.run([*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", config],
                       check=True, capture_output=True)  # fmt: skip
        with Path(folder, "kafka.out").open("wb") as log:
            kafka = subprocess.Popen([*java, "kafka.Kafka", config], stdout=log, stderr=log)
        try:
            _wait_for(port)
            yield f"127.0.0.1:{port}"
        finally:
            kafka.kill()
            kafka.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + START_S_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
