"""A cluster under the doctor's eyes: nsqlookupds and nodes, each by itself and side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from penstock.cli.doctor.copies import examine_copies
from penstock.cli.doctor.data_path import USED_MAX, disk_space
from penstock.cli.doctor.examined_nodes import ExaminedNode, ask_nodes, distinct
from penstock.cli.doctor.report import Finding, Report, error, warning
from penstock.cli.shared.node_selection import DEFAULT_NODE, NodeSelection
from penstock.cluster.exchange import of_lookupd, target
from penstock.cluster.fanout import try_all
from penstock.cluster.figures import ReportedChannel, ReportedTopic
from penstock.cluster.groups import ReportedGroup
from penstock.cluster.http_client import HttpClient
from penstock.cluster.producers import AdvertisedProducers, NodeInfo
from penstock.cluster.upstream_errors import UpstreamError
from penstock.core.clock import Clock
from penstock.core.counted import counted
from penstock.core.ids import log_of
from penstock.core.units import SECOND, format_duration


def examine_traffic(node: ExaminedNode) -> Iterator[Finding]:
    """Look at what waits in each topic of a node."""
    for topic in node.stats.topics or ():
        where = f"nsqd {node.address}, topic {topic.topic_name}"
        if topic.topic_name in node.dead_letters:
            yield from _dead(where, topic.topic_name, node.dead_letters[topic.topic_name])
            continue
        yield from _topic(where, topic)
        for channel in topic.channels or ():
            yield from _channel(f"{where}, channel {channel.channel_name}", topic, channel)
        for group in (*(topic.log_groups or ()), *(topic.consumer_groups or ())):
            yield from _group(f"{where}, group {group.group_name}", topic.topic_name, group)


def _dead(where: str, name: str, letters: int) -> Iterator[Finding]:
    if letters:
        yield warning(
            "dead-letters",
            where,
            f"{counted(letters, 'dead letter')}",
            f"Look with: penstock dlq show {name}. When the cause is mended: "
            f"penstock dlq resend {name} --all",
        )


def _topic(where: str, topic: ReportedTopic) -> Iterator[Finding]:
    """Look at what waits for a channel; RocketMQ's consumers need none."""
    if topic.paused and topic.depth:
        yield warning(
            "paused",
            where,
            f"it is paused, and {_wait(topic.depth)}",
            f"POST {target('/topic/unpause', topic=topic.topic_name)}",
        )
    elif topic.depth and topic.consumer_groups is None and not (topic.channels or topic.log_groups):
        yield warning(
            "no-channel",
            where,
            f"{_wait(topic.depth)}, and there is no channel",
            "The first consumer that subscribes gets them: start it, or empty or delete the topic.",
        )


def _channel(where: str, topic: ReportedTopic, channel: ReportedChannel) -> Iterator[Finding]:
    names = {"topic": topic.topic_name, "channel": channel.channel_name}
    if not channel.depth:
        return
    if channel.paused:
        yield warning(
            "paused",
            where,
            f"it is paused, and {_wait(channel.depth)}",
            f"POST {target('/channel/unpause', **names)}",
        )
    elif not channel.client_count:
        yield warning(
            "unread",
            where,
            f"{_wait(channel.depth)}, and nobody reads it",
            "Start its consumers. A channel that nobody needs holds its messages for "
            f"ever: POST {target('/channel/delete', **names)}",
        )


def _group(where: str, topic: str, group: ReportedGroup) -> Iterator[Finding]:
    if group.age is not None and group.stale:
        age = format_duration(group.age * SECOND)
        deleting = target("/log/group/delete", topic=topic, group=group.group_name)
        yield warning(
            "unread",
            where,
            f"{_wait(group.lag)}, and it has not moved for {age}",
            "Start the job that reads with it. A group that nobody needs holds the log: "
            f"POST {deleting}",
        )
    elif group.age is None and group.lag and not group.client_count:
        yield warning(
            "unread",
            where,
            f"{_wait(group.lag)}, and it has no member",
            "Start its consumers, or remove it: mqadmin deleteSubGroup",
        )


def _wait(number: int) -> str:
    return f"{counted(number, 'message')} wait{'s' if number == 1 else ''}"


TIMEOUT_S: Final = 5.0
SKEW_NS: Final = SECOND
"""The greatest difference of clocks without a warning; NTP keeps them within milliseconds."""
_TOPICS_MAX: Final = 1000


async def examine_cluster(
    where: NodeSelection, clock: Clock, *, used_max: int = USED_MAX
) -> Report:
    """Ask the nsqlookupds, the nodes that they name, and those given; without any this machine's.

    ``used_max`` is from which used part of its disk on, in hundredths, a node has too little left.
    Nothing is changed. Raises ConfigError.
    """
    async with where.http(TIMEOUT_S) as http:
        told, findings = await _lookupds(http, where.lookupds)
        nodes = _nodes(where, told)
        await ask_nodes(http, nodes, clock)
        nodes = distinct(nodes)
        answered = [node for node in nodes if not node.failure]
        findings += [*_tombstones(told), *_same_address(told, answered)]
        for node in nodes:
            findings += _reach(node, list(told))
        for node in answered:
            findings += [*_machine(node, used_max), *examine_traffic(node)]
        findings += [*_versions(answered), *_options(answered)]
        findings += await examine_copies(http, answered)
        findings += await _same_log(http, answered)
    checked = [f"nsqlookupd {lookupd}" for lookupd in told]
    checked += [f"nsqd {node.address}: {counted(len(node.topics), 'topic')}" for node in answered]
    return Report(findings, checked)


def _nodes(where: NodeSelection, told: dict[str, AdvertisedProducers]) -> list[ExaminedNode]:
    """The nodes given, and those that nsqlookupds name."""
    given = where.nsqds or (() if where.lookupds else (DEFAULT_NODE,))
    nodes = {address: ExaminedNode(address) for address in given}
    for lookupd, answer in told.items():
        for producer in (each.producer() for each in answer.producers or ()):
            address = producer.http_address
            node = nodes.setdefault(address, ExaminedNode(address))
            node.named_by.append(lookupd)
            node.told.append(producer.tcp_address)
    return list(nodes.values())


async def _lookupds(
    http: HttpClient, lookupds: Sequence[str]
) -> tuple[dict[str, AdvertisedProducers], list[Finding]]:
    told, found = {}, []
    for lookupd in dict.fromkeys(lookupds):
        try:
            told[lookupd] = await http.get(of_lookupd(lookupd), "/nodes", AdvertisedProducers)
        except UpstreamError as problem:
            found.append(
                error(
                    "lookupd-unreachable",
                    f"nsqlookupd {lookupd}",
                    str(problem),
                    "Start it, or correct its address, or take it out of the flags of nsqds and "
                    "consumers: these go on with the others.",
                )
            )
    return told, found


def _tombstones(told: dict[str, AdvertisedProducers]) -> Iterator[Finding]:
    for lookupd, answer in told.items():
        for node in (each.producer() for each in answer.producers or ()):
            for topic in node.topics or ():
                if topic.tombstoned:
                    yield warning(
                        "tombstone",
                        f"nsqlookupd {lookupd}",
                        f"the topic {topic.topic} "
                        f"is tombstoned at {node.http_address}: consumers are not sent "
                        "there",
                        "It ends after --tombstone-lifetime. If the node is to "
                        "have the topic no more, delete it there; publishers must have "
                        "gone first.",
                    )


def _same_address(
    told: dict[str, AdvertisedProducers], nodes: Sequence[ExaminedNode]
) -> Iterator[Finding]:
    """Look for nodes that have others told the same address."""
    sources: dict[str, Sequence[NodeInfo]] = {"the cluster": [node.info for node in nodes]}
    for lookupd, answer in told.items():
        sources[f"nsqlookupd {lookupd}"] = answer.producers or ()
    for where, infos in sources.items():
        addresses = Counter(each.http_address for each in infos)
        for address, count in addresses.items():
            if count > 1:
                yield error(
                    "same-identity",
                    where,
                    f"{count} nodes say that they are {address}",
                    "Consumers reach one of them. Give each a --broadcast-address, or "
                    "ports, that no other has.",
                )


def _reach(node: ExaminedNode, lookupds: list[str]) -> Iterator[Finding]:
    where = f"nsqd {node.address}"
    if node.failure:
        by = f", as {', '.join(node.named_by)} names it" if node.named_by else ""
        yield error(
            "unreachable",
            where,
            f"{node.failure}{by}",
            "Start it, or correct its address. If it runs, its --broadcast-address, or a "
            "firewall, is wrong: consumers are sent there.",
        )
        return
    for address in node.unreachable:
        yield error(
            "unreachable",
            where,
            f"others are told {address}, where nobody answers",
            "Set --broadcast-address to what consumers reach, and "
            "--broadcast-tcp-port where a port is mapped.",
        )
    missing = [each for each in lookupds if each not in node.named_by]
    if missing and node.is_primary and not any(node.unreachable):
        yield warning(
            "not-registered",
            where,
            f"{', '.join(missing)} does not know it",
            "Consumers that ask there do not find it: give it --lookupd-tcp-address.",
        )


def _machine(node: ExaminedNode, used_max: int) -> Iterator[Finding]:
    where = f"nsqd {node.address}"
    if node.health != "OK" and node.is_primary:
        yield error(
            "unhealthy",
            where,
            node.health,
            "Its log says more. Damage: look with "
            "GET /damage, and with --data-path once it is stopped.",
        )
    if abs(node.ahead_ns) > SKEW_NS + node.doubt_ns:
        off = format_duration(abs(node.ahead_ns) // SECOND * SECOND)
        side = "ahead of" if node.ahead_ns > 0 else "behind"
        yield warning(
            "clock",
            where,
            f"its clock is {off} {side} this machine's",
            "Set both by NTP: times of messages, deferrals and seeks follow them.",
        )
    yield from disk_space(node.disk, where, used_max)
    own = node.options.get("msg_timeout", 0), node.options.get("max_msg_timeout", 0)
    if own[0] > own[1]:
        yield warning(
            "time-outs",
            where,
            f"--msg-timeout {format_duration(own[0])} is more than "
            f"--max-msg-timeout {format_duration(own[1])}",
            "A consumer that asks for "
            "nothing gets more time than one may ask for: raise the latter.",
        )


def _versions(nodes: Sequence[ExaminedNode]) -> Iterator[Finding]:
    found = {
        node.address: f"{node.info.version} (Penstock {node.penstock_version or 'none'})"
        for node in nodes
    }
    if len(set(found.values())) > 1:
        yield warning(
            "versions",
            "the cluster",
            _by_value(found),
            "Upgrade one node after the other until all are of one version.",
        )


def _options(nodes: Sequence[ExaminedNode]) -> Iterator[Finding]:
    """Compare what a client meets at each node."""
    for option in sorted({name for node in nodes for name in node.options}):
        is_time = option.endswith("timeout")
        shown = format_duration if is_time else str
        found = {n.address: shown(n.options[option]) for n in nodes if option in n.options}
        if len(set(found.values())) > 1:
            yield warning(
                "time-outs" if is_time else "options",
                "the cluster",
                f"--{option.replace('_', '-')} differs: {_by_value(found)}",
                "A consumer of a topic on several nodes meets both: set one value.",
            )


def _by_value(found: dict[str, str]) -> str:
    """Values with the nodes that have them, by their addresses."""
    values: dict[str, list[str]] = {}
    for address, value in found.items():
        values.setdefault(value, []).append(address)
    return "; ".join(f"{value} at {', '.join(places)}" for value, places in values.items())


class _Log(msgspec.Struct):
    log: str = ""


class _Queues(msgspec.Struct):
    topic: str
    queues: list[_Log] = []


class _Offsets(msgspec.Struct):
    topics: list[_Queues] = []


async def _same_log(http: HttpClient, nodes: Sequence[ExaminedNode]) -> list[Finding]:
    """Look for two nodes with the same log: one's data path is a copy of the other's.

    Those that follow one another are looked at as such.
    """
    histories = {node.address: node.replication.history or node.address for node in nodes}
    has = Counter(topic for node in nodes for topic in node.topics)
    shared = sorted(topic for topic, count in has.items() if count > 1)[:_TOPICS_MAX]
    if not shared:
        return []
    body = msgspec.json.encode({"topics": shared})

    async def ask(node: ExaminedNode) -> _Offsets:
        return await http.post_as(node.address, "/log/offsets", body, _Offsets)

    places: dict[tuple[str, str], list[str]] = {}
    for node, offsets in (await try_all(nodes, ask)).answers:
        for each in offsets.topics:
            # All queues of a topic share its log, so one id is enough.
            for queue in each.queues[:1]:
                places.setdefault((each.topic, log_of(queue.log)), []).append(node.address)
    return [
        error(
            "same-identity",
            ", ".join(f"nsqd {each}" for each in addresses),
            f"their topic {topic} is the same log: one data path is a copy of the other",
            "Messages of both have the same ids, and readers that keep offsets mix them up: stop "
            "one, and start it on an empty data path.",
        )
        for (topic, _), addresses in places.items()
        if len({histories[each] for each in addresses}) > 1
    ]
