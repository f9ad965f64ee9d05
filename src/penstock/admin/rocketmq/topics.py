"""Topics of RocketMQ: all of them with their figures, and one of them in full."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.rocketmq.lags import readings
from penstock.admin.rocketmq.names import NORMAL, group_of, kind_of
from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.admin.rocketmq.verdicts import GroupFacts, of_group
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.client.admin import clients
from penstock.rocketmq.client.admin import topics as admin_topics
from penstock.rocketmq.client.admin.consume_stats import group_stats
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.topology import Broker, QueueData, TopicRoute
from penstock.rocketmq.client.produce.trace import GROUP as TRACE_GROUP
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.versions import version_name

FIGURES_MAX: Final = 300
"""Topics of which the list has figures: one request to each of a topic's brokers."""
_NO_TOPIC: Final = (ResponseCode.TOPIC_NOT_EXIST,)


async def all_topics(servers: Servers) -> dict[str, Any]:
    """The list of topics. Of system topics, and of those beyond FIGURES_MAX, there is no
    ``kept``.
    """
    warnings = Warnings()
    names, clusters = await servers.topics(), await servers.clusters()
    brokers = [each for each in clusters.brokers.values() if each.any_address()]
    own = {*clusters.names, *clusters.brokers}
    reading, brokers = await readings(servers, brokers, warnings)
    queues = await _configs(servers, brokers, warnings)
    rows = {name: _row(name, kind_of(name, own), queues.get(name, {})) for name in names}
    for group in reading.values():
        for topic, lag in group.lags.items():
            if topic in rows:
                rows[topic]["groups"] += 1
                rows[topic]["lag"] += lag
    wanted = [row for row in rows.values() if row["kind"] != "system"]
    # Users' topics first: where there are more than FIGURES_MAX, retries and letters go without.
    wanted.sort(key=lambda row: bool(row["kind"] != NORMAL))

    async def ask(topic: str) -> None:
        on = [broker for broker in brokers if broker.name in rows[topic]["brokers"]]
        rows[topic] |= await sums_of(servers, on, topic)

    await gathered([row["topic"] for row in wanted[:FIGURES_MAX]], ask, warnings)
    return {"topics": list(rows.values()), "message": warnings.message}


def _row(name: str, kind: str, configs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "topic": name,
        "kind": kind,
        "group": group_of(name),
        "brokers": sorted(configs),
        "read_queues": sum(int(each["readQueueNums"]) for each in configs.values()),
        "write_queues": sum(int(each["writeQueueNums"]) for each in configs.values()),
        "perm": min((int(each["perm"]) for each in configs.values()), default=None),
        "groups": 0,
        "lag": 0,
        "kept": None,
        "written": None,
        "in": None,
        "last_ms": None,
    }


async def sums_of(servers: Servers, brokers: list[Broker], topic: str) -> dict[str, Any]:
    """The figures of a topic on all these brokers; of one that has no such topic zeros."""
    queues: list[dict[str, Any]] = []
    for broker in brokers:
        try:
            queues += (await bounds_of(servers, broker, topic)).values()
        except Refused as error:
            # It may have been deleted there since the list was made.
            if error.code not in _NO_TOPIC:
                raise
    return {
        "kept": sum(each["max"] - each["min"] for each in queues),
        "written": sum(each["max"] for each in queues),
        "in": sum(each["in"] or 0.0 for each in queues)
        if any(each["in"] is not None for each in queues)
        else None,
        "last_ms": max((each["last_ms"] for each in queues), default=0),
    }


async def _configs(
    servers: Servers, brokers: list[Broker], warnings: Warnings
) -> dict[str, dict[str, dict[str, Any]]]:
    """The configuration of topics by topic and broker."""

    async def ask(broker: Broker) -> dict[str, dict[str, Any]]:
        return await topic_configs(servers, broker)

    table: dict[str, dict[str, dict[str, Any]]] = {}
    for broker, configs in await gathered(brokers, ask, warnings):
        for name, config in configs.items():
            table.setdefault(str(name), {})[broker.name] = config
    return table


async def topic_configs(servers: Servers, broker: Broker) -> dict[str, dict[str, Any]]:
    """The configuration of a broker's topics by name."""
    found = await admin_topics.topic_configs(servers, broker.any_address())
    return dict(found.get("topicConfigTable") or {})


async def bounds_of(servers: Servers, broker: Broker, topic: str) -> dict[int, dict[str, Any]]:
    """The first offset of each queue on a broker, its end, messages a second that come to it (None
    with the first look), and when something came last.
    """
    stats = await admin_topics.topic_stats(servers, broker.any_address(), topic)
    now = servers.now_ms / 1000
    return {
        queue.queueId: {
            "min": int(each["minOffset"]),
            "max": int(each["maxOffset"]),
            "in": servers.queue_rates.take(
                (topic, broker.name, queue.queueId), now, int(each["maxOffset"])
            ),
            "last_ms": max(0, int(each["lastUpdateTimestamp"])),
        }
        for queue, each in stats.items()
    }


async def one_topic(servers: Servers, topic: str) -> dict[str, Any]:
    """A topic with its queues, groups and producers. Raises ApiError 404."""
    warnings = Warnings()
    route = await servers.route(topic)
    clusters = await servers.clusters()
    brokers = [each for each in route.brokers if each.any_address()]

    async def ask(broker: Broker) -> dict[int, dict[str, Any]]:
        return await bounds_of(servers, broker, topic)

    bounds = {each.name: queues for each, queues in await gathered(brokers, ask, warnings)}
    return {
        "topic": topic,
        "kind": kind_of(topic, {*clusters.names, *clusters.brokers}),
        "group": group_of(topic),
        "order": route.order,
        "brokers": _brokers(route),
        "queues": [row for data in route.queues for row in _queues(data, bounds)],
        "groups": await _groups(servers, topic, brokers, warnings),
        "producers": await _producers(servers, brokers, warnings),
        "message": warnings.message,
    }


def _brokers(route: TopicRoute) -> list[dict[str, Any]]:
    queues = {each.brokerName: each for each in route.queues}
    return [
        {
            "broker": each.name,
            "cluster": each.cluster,
            "address": each.any_address(),
            "read_queues": queues[each.name].readQueueNums,
            "write_queues": queues[each.name].writeQueueNums,
            "perm": queues[each.name].perm,
        }
        for each in route.brokers
        if each.name in queues
    ]


def _queues(data: QueueData, bounds: dict[str, dict[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    known = bounds.get(data.brokerName, {})
    nothing = {"min": None, "max": None, "in": None, "last_ms": None}
    return [
        {
            "broker": data.brokerName,
            "queue": number,
            "readable": bool(data.perm & 4) and number < data.readQueueNums,
            "writable": bool(data.perm & 2) and number < data.writeQueueNums,
            **known.get(number, nothing),
        }
        for number in range(max(data.readQueueNums, data.writeQueueNums))
    ]


async def _groups(
    servers: Servers, topic: str, brokers: list[Broker], warnings: Warnings
) -> list[dict[str, Any]]:
    """The groups that read a topic, with their lag in it and their members."""
    groups = await groups_of(servers, topic, brokers, warnings)

    async def ask(group: str) -> dict[str, Any]:
        row: dict[str, Any] = {"group": group, "lag": 0, "tps": 0.0, "members": 0}
        members = set()
        for broker in brokers:
            stats = await group_stats(servers, broker.any_address(), group, topic)
            row["lag"] += stats.lag
            row["tps"] += stats.tps
            members |= {str(each["clientId"]) for each in await connections(servers, broker, group)}
        row["members"] = len(members)
        return row | {"verdicts": of_group(GroupFacts(row["lag"], row["members"]))}

    return [row for _, row in await gathered(groups, ask, warnings)]


async def groups_of(
    servers: Servers, topic: str, brokers: list[Broker], warnings: Warnings
) -> list[str]:
    """The groups that read a topic, sorted."""

    async def ask(broker: Broker) -> list[str]:
        groups = await admin_topics.groups_of(servers, broker.any_address(), topic)
        if topic in groups and not await _is_group(servers, broker, topic):
            groups.remove(topic)
        return groups

    told = await gathered(brokers, ask, warnings, but=_NO_TOPIC)
    return sorted({group for _, found in told for group in found})


async def _is_group(servers: Servers, broker: Broker, name: str) -> bool:
    """True for a group with offsets or members: Java's 5.3 lists a topic among its own groups."""
    found = await group_stats(servers, broker.any_address(), name)
    return bool(found.queues or await connections(servers, broker, name))


async def connections(servers: Servers, broker: Broker, group: str) -> list[dict[str, Any]]:
    """The consumers of a group that are connected to a broker."""
    found = await consumers(servers, broker, group)
    return list(found.get("connectionSet") or ())


async def consumers(servers: Servers, broker: Broker, group: str) -> dict[str, Any]:
    """The group as a broker knows it; empty where nobody is there."""
    try:
        return await clients.consumers(servers, broker.any_address(), group)
    except Refused as error:
        if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return {}
        raise


async def _producers(
    servers: Servers, brokers: list[Broker], warnings: Warnings
) -> list[dict[str, Any]]:
    """The producers at these brokers: which topics they send to no broker knows."""

    async def ask(broker: Broker) -> dict[str, Any]:
        return await clients.producers(servers, broker.any_address())

    unsupported = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for broker, groups in await gathered(brokers, ask, warnings, but=unsupported):
        for group, members in groups.items():
            if group == TRACE_GROUP:  # beside the producers and consumers that it belongs to
                continue
            for each in members or ():
                client = str(each["clientId"])
                row = rows.setdefault(
                    (str(group), client),
                    {
                        "group": str(group),
                        "client": client,
                        "address": str(each.get("remoteIP", "")).lstrip("/"),
                        "language": str(each["language"]),
                        "version": version_name(int(each["version"])),
                        "last_ms": int(each["lastUpdateTimestamp"]),
                        "brokers": [],
                    },
                )
                row["brokers"].append(broker.name)
    return [rows[key] for key in sorted(rows)]
