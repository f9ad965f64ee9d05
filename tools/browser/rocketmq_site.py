"""Clusters of RocketMQ for the browser to look at, with an nsqadmin over each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.testing.daemons import run_mqbroker, run_mqnamesrv, run_nsqadmin, run_nsqd
from tools.harness.rocketmq.shop import TOPIC, Shop, running_shop

from .site import PATIENT, ask, until

PATIENT_OF_ROCKETMQ = "--rocketmq-client-opt=request_timeout,20s"
SECRET = "secret-of-the-admin"
RULES = f"""
globalWhiteRemoteAddresses: [10.7.0.*]
accounts:
  - accessKey: the-admin
    secretKey: {SECRET}
    admin: true
  - accessKey: billing
    secretKey: {SECRET}
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms: [trades=SUB, invoices=PUB]
    groupPerms: [billing=SUB]
"""


@contextmanager
def running_rocketmq() -> Iterator[tuple[Shop, str]]:
    """The shop, which NSQ reads as well, and the URL of an nsqadmin over both sides of it."""
    with running_shop() as shop:
        ask(shop.ours.http, "POST", f"/channel/create?topic={TOPIC}&channel=nsq-audit")
        flags = (f"--nsqd-http-address={shop.ours.http}", "--history-interval=1s")
        with _admin(shop.name_server.rocketmq, *flags) as url:
            yield shop, url


@contextmanager
def running_beside(shop: Shop) -> Iterator[str]:
    """The URL of an nsqadmin over an nsqd, with a topic `own`, and the shop's broker beside it."""
    with run_nsqd() as nsqd:
        ask(nsqd.http, "POST", "/topic/create?topic=own")
        flags = (f"--nsqd-http-address={nsqd.http}", "--history-interval=1s")
        with _admin(shop.name_server.rocketmq, *flags) as url:
            yield url


@contextmanager
def running_guarded() -> Iterator[str]:
    """The URL of an nsqadmin over a broker with access rules."""
    with TemporaryDirectory() as folder, run_mqnamesrv() as name_server:
        Path(folder, "plain_acl.yml").write_text(RULES)
        rules = {"aclEnable": "true", "nsqOpen": "true", "aclDirectory": folder}
        with run_mqbroker(name_server=name_server.rocketmq, **rules):
            signed = ("access_key,the-admin", f"secret_key,{SECRET}")
            options = (f"--rocketmq-client-opt={each}" for each in signed)
            with _admin(name_server.rocketmq, *options) as url:
                yield url


@contextmanager
def _admin(name_server: str, *flags: str) -> Iterator[str]:
    address = f"--rocketmq-namesrv-address={name_server}"
    with run_nsqadmin(
        *PATIENT, PATIENT_OF_ROCKETMQ, address, "--admin-user=alice", *flags
    ) as admin:
        alice = {"X_Forwarded_User": "alice"}
        path = "/api/rocketmq"
        until(lambda: ask(admin.http, "GET", path, **alice)[1]["brokers"], "the broker's name")
        yield f"http://{admin.http}"
