"""A cluster with something of everything that the pages' blocks name, and the pages' names for it.

| where | what there is |
|---|---|
| `orders`, channel `bill` | 40 messages, even and odd, which are in `orders.dead`; two that wait |
| `clicks`, channel `archive`, group `spark-1` | 10 messages that nobody has read |
| `events`, channel `billing` | 12 messages |
| `t`, channel `c` | a message, finished |
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from penstock.log_api.log_client import LogClient
from penstock.nsq.client import Config
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.testing.daemons import (
    Daemon,
    Nsqadmin,
    run_nsqadmin,
    run_nsqd,
    run_nsqlookupd,
)
from tests.forwarding import create, publish, wait_until
from tools.harness.certificates import Certificates
from tools.harness.patience import PATIENT
from tools.harness.ports import unused_address
from tools.harness.rocketmq.shop import Shop, running_shop

ORDERS = 40
_FLAGS = (
    "--retention-time=24h", "--metrics", "--max-attempts=2", "--dead-letter-topic=%s.dead",
    "--e2e-processing-latency-percentile=0.99,0.5",
)  # fmt: skip


@dataclass
class Site:
    """The daemons, and a folder for a reader with the files that the pages name."""

    folder: Path
    lookupd: Daemon
    asked: Daemon
    """An nsqlookupd that names a dead node as well."""
    nsqd: Daemon
    unready: Daemon
    shop: Shop
    admin: Nsqadmin

    def own(self) -> dict[str, str]:
        """These daemons for those that a page names, each by the page's words for it."""
        names, other = self.shop.name_server.rocketmq, self.shop.ours.tcp
        return {
            "doctor --lookupd-http-address 127.0.0.1:4161":
            f"doctor --lookupd-http-address {self.asked.http}",
            "127.0.0.1:4151/ready": f"{self.unready.http}/ready",
            "127.0.0.1:4150": self.nsqd.tcp, "127.0.0.1:4151": self.nsqd.http,
            "127.0.0.1:4161": self.lookupd.http, "127.0.0.1:5161": self.lookupd.http,
            "127.0.0.1:4171": self.admin.http, "127.0.0.1:9876": names,
            "10.0.0.1:9876": names, "10.0.0.2:9876": names, "ns2.example:9876": names,
            "10.0.0.1:4150": self.nsqd.tcp, "10.0.0.2:4150": self.nsqd.tcp,
            "10.0.0.8:4150": other, "10.0.0.9:4150": other,
            "http://10.0.0.1:8080/in": f"http://{self.nsqd.http}/pub?topic=in",
            "https://a/in": f"http://{self.nsqd.http}/pub?topic=in",
            "https://b/in": f"http://{self.nsqd.http}/pub?topic=in",
            "http://10.0.0.1:8080/count": f"http://{self.nsqd.http}/ping",
            "0.0.0.0:10911": "127.0.0.1:0", "/etc/": f"{self.folder}/",
            "=/data": f"={self.folder}/data",
        }  # fmt: skip


@contextmanager
def running_site(folder: Path) -> Iterator[Site]:
    with (
        run_nsqlookupd() as lookupd,
        run_nsqlookupd() as asked,
        _naming_a_dead_node(asked),
        running_shop() as shop,
    ):
        to_both = [f"--lookupd-tcp-address={each.tcp}" for each in (lookupd, asked)]
        with (
            run_nsqd(*to_both, *_FLAGS) as nsqd,
            run_nsqd(f"--lookupd-tcp-address={unused_address()}") as unready,
            run_nsqadmin(
                f"--lookupd-http-address={lookupd.http}",
                f"--rocketmq-namesrv-address={shop.name_server.rocketmq}",
                "--history-interval=1s",
                *PATIENT,
                "--rocketmq-client-opt=request_timeout,60s",
            ) as admin,
            Producer(nsqd.tcp) as producer,
        ):
            producer.publish("clicks", b"click")
            _publish(nsqd)
            wait_until(lambda: _has_history(admin), lambda: "nsqadmin has no history")
            _write_files(folder, lookupd)
            yield Site(folder, lookupd, asked, nsqd, unready, shop, admin)


def _publish(nsqd: Daemon) -> None:
    bodies = {
        "orders": [b'{"id":%d,"kind":"%s"}' % (n, (b"even", b"odd")[n % 2]) for n in range(ORDERS)],
        "clicks": [b"click"] * 10,
        "log.app": [b"one line"],
        "events": [b'{"user": "ann"}'] * 12,
        "t": [b"tea"],
    }
    for topic, channel in (
        ("orders", "bill"),
        ("clicks", "archive"),
        ("events", "billing"),
        ("t", "c"),
        ("T", "c"),
    ):
        create(nsqd, topic, channel)
    for topic, found in bodies.items():
        publish(nsqd, topic, found)
    with LogClient(nsqd.http) as log:
        log.commit("clicks", "spark-1", {0: 0})
        log.commit("T", "G", {0: 0})
    _consume(nsqd, "t", "c", 1, finish=True)
    _consume(nsqd, "orders", "bill", 2 * ORDERS, finish=False)
    publish(nsqd, "orders", [b"{}"] * 2)


@contextmanager
def _naming_a_dead_node(lookupd: Daemon) -> Iterator[None]:
    """Let an nsqlookupd name a node where nobody listens."""
    host, _, port = unused_address().partition(":")
    ports = {"tcp_port": int(port), "http_port": int(port)}
    body = json.dumps({"broadcast_address": host, "hostname": host, "version": "1.3.0", **ports})
    with socket.create_connection(("127.0.0.1", lookupd.tcp_port)) as node:
        node.sendall(b"  V1IDENTIFY\n" + struct.pack(">I", len(body)) + body.encode())
        assert node.recv(4)
        yield


def _has_history(admin: Nsqadmin) -> bool:
    try:
        urlopen(f"http://{admin.http}/api/history?topic=events&channel=billing").close()
    except HTTPError:
        return False
    return True


def _consume(nsqd: Daemon, topic: str, channel: str, deliveries: int, *, finish: bool) -> None:
    config = Config(max_in_flight=ORDERS, default_requeue_delay=0)
    with Consumer(topic, channel, nsqd_tcp_addresses=[nsqd.tcp], config=config) as consumer:
        for _ in range(deliveries):
            message = consumer.get(timeout=60)
            assert message
            if finish:
                message.finish()
            else:
                message.requeue(0, backoff=False)


def _write_files(folder: Path, lookupd: Daemon) -> None:
    (folder / "data").mkdir()
    Certificates(folder)
    shutil.copy(folder / "ca.pem", folder / "clients-ca.pem")
    (folder / "nsqadmin.cfg").write_text(f'nsqlookupd_http_addresses = ["{lookupd.http}"]\n')
    (folder / "app.log").write_text("one line\n")
    (folder / "records.txt").write_text("one record\n")
