"""The data path that is kept of a release, for the tests of later versions.

An nsqd with RocketMQ's port writes it: a topic with finished, deferred and paused messages, a group
that reads its log, and a topic of RocketMQ with queues, keys and a group's offsets. The programs of
later versions open it in ``tests/programs/test_data_paths.py``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from penstock.nsq.client import Config
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.rocketmq.client import Config as RocketConfig
from penstock.rocketmq.client import Message
from penstock.rocketmq.client.blocking import LitePullConsumer
from penstock.rocketmq.client.blocking import Producer as RocketProducer
from penstock.testing.daemons import Daemon, run_mqnamesrv, run_nsqd

ORDERS: Final = [b"order %03d " % each + b"x" * 60 for each in range(40)]
FINISHED: Final = 25
TRADES: Final = [b"trade %d" % each for each in range(16)]
"""Of these the group has read ``READ``."""
READ: Final = 12
PROPERTIES: Final = "brokerName=kept\nfileReservedTime=1000000"
"""Not named after a machine, and without the end of its messages' time."""
_NO_DATA: Final = {"nsqd.lock", "abort", "lock"}


def folder(root: Path, version: str) -> Path:
    """Where a repository keeps that of a version."""
    return root / "tests" / "fixtures" / "data-paths" / version


def write(folder: Path) -> None:
    """Write a data path of this version into a folder that is not there yet."""
    with tempfile.TemporaryDirectory(prefix="penstock-kept-") as scratch:
        data, properties = Path(scratch, "data"), Path(scratch, "broker.conf")
        properties.write_text(f"{PROPERTIES}\n")
        flags = ("--rocketmq-address=127.0.0.1:0", f"--rocketmq-config={properties}",
                 "--max-bytes-per-file=1024")  # fmt: skip
        with run_mqnamesrv() as names:
            found = f"--rocketmq-namesrv-address={names.rocketmq}"
            with run_nsqd(*flags, found, data_path=data) as nsqd:
                _nsq(nsqd)
                nsqd.wait_for(f"name server {names.rocketmq}: registered")
                _rocketmq(names.rocketmq)
        shutil.copytree(data, folder, ignore=shutil.ignore_patterns(*_NO_DATA))


def _nsq(nsqd: Daemon) -> None:
    for channel in ("bill", "ship"):
        _post(nsqd, f"/topic/create?topic=orders&channel={channel}")
        _post(nsqd, f"/channel/create?topic=orders&channel={channel}")
    _post(nsqd, "/channel/pause?topic=orders&channel=ship")
    with Producer(nsqd.tcp) as producer:
        for each in ORDERS:
            producer.publish("orders", each)
        producer.deferred_publish("orders", 3600, b"deferred")
    settings = Config(max_in_flight=1)
    with Consumer("orders", "bill", nsqd_tcp_addresses=[nsqd.tcp], config=settings) as consumer:
        for _ in range(FINISHED):
            message = consumer.get()
            assert message is not None
            message.finish()
    _post(nsqd, "/log/commit?topic=orders&group=spark", b'{"offsets":{"0":12}}')


def _rocketmq(namesrv_addr: str) -> None:
    settings = RocketConfig(consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    with RocketProducer("desk", namesrv_addr) as producer:
        _trade(producer, range(READ))
        with LitePullConsumer("audit", namesrv_addr, config=settings) as consumer:
            consumer.subscribe("trades")
            read: list[object] = []
            while len(read) < READ:
                read += consumer.poll(timeout=5)
            consumer.commit()
        _trade(producer, range(READ, len(TRADES)))


def _trade(producer: RocketProducer, numbers: Iterable[int]) -> None:
    for number in numbers:
        tag = "AB"[number % 2]
        producer.send(Message("trades", TRADES[number], tags=tag, keys=str(number)))


def _post(nsqd: Daemon, target: str, body: bytes = b"") -> None:
    with urlopen(f"http://{nsqd.http}{target}", data=body, timeout=30):
        pass
