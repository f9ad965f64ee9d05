"""Every metric of a node is on the page of a node that has something to show."""

from __future__ import annotations

from pathlib import Path

from penstock.core.metrics import node
from penstock.testing.daemons import run_nsqd
from tests.metrics_pages import ask, missing, page_of

_ROCKETMQ = {node.GROUP_LAG.name, node.GROUP_RATE.name, node.GROUP_MEMBERS.name}


def test_the_page_has_the_whole_list(tmp_path: Path) -> None:
    flags = ("--metrics", "--e2e-processing-latency-percentile=0.5")
    with run_nsqd(*flags, data_path=tmp_path / "data") as nsqd:
        ask(nsqd.http, "/topic/create?topic=t", b"")
        ask(nsqd.http, "/channel/create?topic=t&channel=c", b"")
        ask(nsqd.http, "/log/commit?topic=t&group=g", b'{"offsets":{"0":0}}')
        page = page_of(nsqd.http, "nsqd")
    assert missing(page, node.LIST.metrics) == _ROCKETMQ, "groups need RocketMQ's port"
    size, free = page[node.DISK_SIZE.name].value(), page[node.DISK_FREE.name].value()
    assert 0 < free <= size
