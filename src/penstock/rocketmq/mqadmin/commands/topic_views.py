"""Sub-commands that show topics: where they are, how full their queues are, who has which queue."""

from __future__ import annotations

from typing import Any, Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.topics import topic_stats
from penstock.rocketmq.client.admin.topology import Clusters, TopicRoute
from penstock.rocketmq.client.consume.allocation import averagely
from penstock.rocketmq.client.names import DEAD, RETRY
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.java_text import cut, pretty, to_millisecond
from penstock.rocketmq.mqadmin.output import Output, Shown, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.message_queue import MessageQueue, queue_order

STATUS: Final = Table(
    "queues",
    "%-32s  %-4d  %-20d  %-20d    %s",
    "broker queue minOffset maxOffset lastUpdated",
    ("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated"),
)
TOPICS: Final = Table("topics", "%s", "topic")
CLUSTERS: Final = Table("clusters", "%s", "cluster")
BY_CLUSTER: Final = Table(
    "topics",
    "%-20s  %-64s  %-64s",
    "cluster topic group",
    ("#Cluster Name", "#Topic", "#Consumer Group"),
    "%-20s  %-48s  %-48s",
)
ROUTE: Final = Table(
    "brokers",
    "%-45s %-32s %-50s %-10s %-11s %-5s",
    "cluster broker addresses readQueues writeQueues perm",
    ("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm"),
)
_RULE: Final = 158


async def topic_status(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The bounds of a topic's queues."""
    topic = given.text("topic")
    table: dict[MessageQueue, Any] = {}
    for address in (await admin.route(topic)).addresses:
        table |= await topic_stats(admin, address, topic)
    if not table:
        raise CommandFailed("Not found the topic stats info")
    out.head(STATUS)
    for queue in sorted(table, key=queue_order):
        each = table[queue]
        updated = int(each["lastUpdateTimestamp"])
        out.row(
            STATUS,
            cut(queue.brokerName, 32),
            queue.queueId,
            int(each["minOffset"]),
            int(each["maxOffset"]),
            to_millisecond(updated) if updated > 0 else Shown("", 0),
        )


async def topic_route(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The brokers and queues of a topic."""
    route = await admin.route(given.text("topic"))
    if "list" not in given:
        shown = _as_json(route)
        out.text(pretty(shown) + "\n")
        out.fact("route", shown)
        return
    queues = {each.brokerName: each for each in route.queues}
    out.head(ROUTE)
    for each in route.brokers:
        data = queues[each.name]
        shown_addresses = ", ".join(f"{number}={text}" for number, text in each.addresses.items())
        out.row(
            ROUTE,
            each.cluster,
            each.name,
            Shown(f"{{{shown_addresses}}}", each.addresses),
            data.readQueueNums,
            data.writeQueueNums,
            data.perm,
        )
    read = sum(queues[each.name].readQueueNums for each in route.brokers)
    write = sum(queues[each.name].writeQueueNums for each in route.brokers)
    out.text("-" * _RULE + "\n" + ROUTE.line("Total:", len(queues), "", read, write, "") + "\n")


def _as_json(route: TopicRoute) -> dict[str, Any]:
    brokers = [
        {"brokerAddrs": each.addresses, "brokerName": each.name, "cluster": each.cluster}
        for each in route.brokers
    ]
    queues = [dict(sorted(each._asdict().items())) for each in route.queues]
    order = {} if route.order is None else {"orderTopicConf": route.order}
    return {"brokerDatas": brokers, "filterServerTable": {}, **order, "queueDatas": queues}


async def topic_cluster_list(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The clusters that have a topic."""
    clusters = await admin.clusters()
    brokers = {each.name for each in (await admin.route(given.text("topic"))).brokers}
    for name, members in clusters.names.items():
        if brokers & set(members):
            out.row(CLUSTERS, name)


async def topic_list(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """All topics, with their clusters and groups where that is asked for."""
    if "clusterModel" not in given:
        for topic in await admin.topics():
            out.row(TOPICS, topic)
        return
    clusters = await admin.clusters()
    out.head(BY_CLUSTER)
    for topic in await admin.topics():
        if topic.startswith((RETRY, DEAD)):
            continue
        cluster, groups = await _whereabouts(admin, topic, clusters)
        for group in groups or [""]:
            out.row(BY_CLUSTER, cut(cluster, 20), cut(topic, 64), cut(group, 64))


async def _whereabouts(admin: Admin, topic: str, clusters: Clusters) -> tuple[str, list[str]]:
    """A topic's cluster and groups, where they can be found out."""
    cluster = ""
    try:
        cluster = clusters.cluster_of((await admin.route(topic)).brokers[0].name) or ""
        return cluster, await admin.groups_of(topic)
    except (PenstockError, IndexError):
        return cluster, []


async def allocate(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The queues that each of these clients would have."""
    topic = given.text("topic")
    members = given.text("ipList").split(",")
    queues = sorted((await admin.route(topic)).readable(topic), key=queue_order)
    found = {
        each: [queue._asdict() for queue in averagely(each, queues, members)] for each in members
    }
    out.text(fastjson.dumps({"result": found}).decode() + "\n")
    out.fact("result", found)
