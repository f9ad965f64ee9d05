"""All metrics, by part and by the programs whose pages have it."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.core.metrics import (
    mqbroker,
    mqnamesrv,
    node,
    nsqadmin,
    nsqd,
    nsqlookupd,
    process,
    replication,
)
from penstock.core.metrics.declared import Metric


class Part(NamedTuple):
    """Metrics that belong together, and when a program has them."""

    title: str
    where: str
    programs: tuple[str, ...]
    metrics: tuple[Metric, ...]


_PROGRAMS: Final = ("nsqd", "mqbroker", "nsqlookupd", "mqnamesrv", "nsqadmin")

PARTS: Final = (
    Part("A node", "in nsqd and mqbroker, under the same names", ("nsqd", "mqbroker"),
         tuple(node.LIST.metrics)),
    Part("NSQ's ports", "in nsqd, and in mqbroker with `nsqTcpAddress` or `nsqHttpAddress`",
         ("nsqd", "mqbroker"), tuple(nsqd.LIST.metrics)),
    Part("A second copy", "in nsqd, once it has a follower or is one", ("nsqd",),
         tuple(replication.LIST.metrics)),
    Part("RocketMQ's port", "in mqbroker, and in nsqd with `--rocketmq-address`",
         ("nsqd", "mqbroker"), tuple(mqbroker.LIST.metrics)),
    Part("nsqlookupd", "in nsqlookupd", ("nsqlookupd",), tuple(nsqlookupd.LIST.metrics)),
    Part("mqnamesrv", "in mqnamesrv", ("mqnamesrv",), tuple(mqnamesrv.LIST.metrics)),
    Part("nsqadmin", "in nsqadmin", ("nsqadmin",), tuple(nsqadmin.LIST.metrics)),
    Part("The process", "in every program", _PROGRAMS, tuple(process.LIST.metrics)),
)  # fmt: skip


ALL: Final = tuple(metric for part in PARTS for metric in part.metrics)
