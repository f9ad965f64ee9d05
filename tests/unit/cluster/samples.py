"""A cluster as /stats tells of it."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.cli.top.all_nodes import Cluster
from penstock.cluster.figures import NodeFigures, ReportedNode, figures_of

SECOND = 10**9


def channel(name: str, **more: Any) -> dict[str, Any]:
    return {
        "channel_name": name, "depth": 0, "backend_depth": 0, "in_flight_count": 0,
        "deferred_count": 0, "message_count": 0, "requeue_count": 0, "timeout_count": 0,
        "client_count": len(more.get("clients") or ()), "clients": [], "paused": False,
    } | more  # fmt: skip


def client(**more: Any) -> dict[str, Any]:
    return {
        "client_id": "worker", "hostname": "worker.lan", "remote_address": "10.0.0.9:5555",
        "ready_count": 200, "in_flight_count": 5, "message_count": 905, "finish_count": 900,
        "requeue_count": 2, "user_agent": "go-nsq/1.1.0",
    } | more  # fmt: skip


def topic(name: str, *channels: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "topic_name": name, "channels": list(channels), "depth": 0, "backend_depth": 0,
        "message_count": 0, "message_bytes": 0, "paused": False,
    } | more  # fmt: skip


def stats(*topics: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"version": "1.3.0", "health": "OK", "start_time": 0, "topics": list(topics)} | more


def at(address: str, second: int, *topics: dict[str, Any], **more: Any) -> NodeFigures:
    told = msgspec.convert(stats(*topics, **more), ReportedNode)
    return figures_of(address, second * SECOND, told)


SPARK = {"group_name": "spark", "committed": {"0": 60}, "lag": 40, "rate": 1.5}


def busy_cluster() -> Cluster:
    """Two nodes and a dead one: ``ship`` falls behind, ``clicks`` waits for nobody."""
    cluster = Cluster()
    for second in range(5):
        sent = 1000 * second
        bill = channel("bill", message_count=sent, in_flight_count=5, clients=[client()])
        ship = channel("ship", message_count=sent, depth=sent // 2, timeout_count=3, paused=True)
        group = {
            "group_name": "g", "message_model": "CLUSTERING", "lag": 7, "rate": 12.5,
            "committed": {"0": 40, "1": 2}, "client_count": 1,
            "clients": [{"client_id": "j@1", "remote_address": "10.0.0.8:1", "language": "JAVA",
                         "version": "V5_3_2"}],
        }  # fmt: skip
        orders = topic("orders", bill, ship, message_count=sent, message_bytes=200 * sent,
                       consumer_groups=[group])  # fmt: skip
        clicks = topic("clicks", message_count=900, depth=900, message_bytes=9000)
        cluster.put(at("10.0.0.1:4151", second, orders, clicks))
        orders = topic("orders", channel("bill", message_count=10 * second, requeue_count=4),
                       message_count=10 * second, log_groups=[SPARK])  # fmt: skip
        cluster.put(at("10.0.0.2:4151", second, orders))
    cluster.put(NodeFigures("10.0.0.3:4151", 4 * SECOND, error="connection refused"))
    return cluster
