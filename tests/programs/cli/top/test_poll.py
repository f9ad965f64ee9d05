"""Asking real nodes, ours and what is none."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from penstock.cli.shared.nodes import Where
from penstock.cli.top.all_nodes import Cluster
from penstock.cli.top.poll import TIMEOUT_S, Poller
from penstock.cluster.groups import LOG
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.forwarding import wait_until
from tests.unit.cli.nodes_at_work import ask, make


async def test_nodes_by_address_and_by_nsqlookupd_and_one_that_is_none() -> None:
    with run_nsqlookupd() as lookupd, run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as nsqd:
        make(nsqd, "t", "c")
        ask(nsqd, "POST", "/log/commit?topic=t&group=spark", b'{"offsets":{}}')
        wait_until(lambda: bool(ask(lookupd, "GET", "/nodes")["producers"]), nsqd.log)
        cluster = Cluster()
        nodes, lookupds = [lookupd.http, "127.0.0.1:1"], [lookupd.http, "127.0.0.1:2"]
        where = Where(nodes, lookupds)
        async with where.asker() as asker:
            await Poller(asker, cluster, where, 1).once()
    assert set(cluster.nodes) == {nsqd.http, lookupd.http, "127.0.0.1:1"}
    (topic,) = cluster.nodes[nsqd.http].topics
    assert [(reader.name, reader.kind) for reader in topic.readers] == [
        ("c", "channel"), ("spark", LOG)
    ]  # fmt: skip
    assert cluster.nodes["127.0.0.1:1"].error == "connection refused"
    assert cluster.nodes[lookupd.http].error == "status 404"
    assert cluster.troubles == ["nsqlookupd 127.0.0.1:2: connection refused"]


async def test_a_node_that_hangs_or_dies_holds_nobody_up() -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    hanging = f"127.0.0.1:{silent.getsockname()[1]}"
    cluster = Cluster()
    with silent, run_nsqd() as one, run_nsqd() as other:
        news = asyncio.Event()

        async def until(reached: Callable[[], bool]) -> None:
            async with asyncio.timeout(60):
                while not reached():
                    news.clear()
                    await news.wait()

        nodes = [hanging, one.http, other.http]
        asker = Where().asker(TIMEOUT_S)
        poller = Poller(asker, cluster, Where(nodes), 0.02, changed=news.set)
        poller.start()
        try:
            await until(lambda: _is_good(cluster, one) and _is_good(cluster, other))
            other.kill()
            await until(lambda: other.http in cluster.nodes and not _is_good(cluster, other))
            seen = cluster.nodes[one.http].at_ns
            await until(lambda: cluster.nodes[one.http].at_ns > seen)
            other.start()
            await until(lambda: _is_good(cluster, other))
        finally:
            await poller.stop()
            await asker.close()


def _is_good(cluster: Cluster, node: Daemon) -> bool:
    return node.http in cluster.nodes and not cluster.nodes[node.http].error
