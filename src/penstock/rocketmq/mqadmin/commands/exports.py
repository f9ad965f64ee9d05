"""Sub-commands that write what a cluster has into JSON files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.brokers import broker_config, rates, runtime_info
from penstock.rocketmq.client.admin.groups import group_configs
from penstock.rocketmq.client.admin.topics import system_topics, topic_configs
from penstock.rocketmq.client.admin.topology import MASTER
from penstock.rocketmq.client.names import DEAD, RETRY
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.connections import sorted_connections
from penstock.rocketmq.mqadmin.commands.stats import PUT
from penstock.rocketmq.mqadmin.errors import UsageWanted
from penstock.rocketmq.mqadmin.java_text import pretty
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.protocol.command import PROTOCOL_VERSION
from penstock.rocketmq.protocol.versions import version_name

FOLDER: Final = "/tmp/rocketmq/export"
_SYSTEM_GROUPS: Final = frozenset(
    (
        "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
    )
)  # fmt: skip
_SYSTEM_PREFIX: Final = "CID_RMQ_SYS_"
_CONFIGS: Final = (
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime",
    "filterServerNums", "flushDiskType", "maxMessageSize", "messageDelayLevel",
    "msgTraceTopicName", "slaveReadEnable", "traceOn", "traceTopicEnable", "useTLS",
    "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
)  # fmt: skip
_HALF, _SCHEDULE = "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"


def _write(
    given: ParsedOptions, name: str, value: dict[str, Any], out: Output, end: str = ""
) -> None:
    path = f"{given.text('filePath', FOLDER)}/{name}"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(pretty(value), encoding="utf-8")
    out.say(f"export {path} success{end}", path=path)


# --- topics and groups ----------------------------------------------------------------------------


async def export_metadata(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The configuration of topics and groups."""
    if "brokerAddr" in given:
        address = given.text("brokerAddr")
        if "topic" in given:
            found = await _topics(admin, address, special="specialTopic" in given)
            _write(given, "topic.json", found, out)
        elif "subscriptionGroup" in given:
            _write(given, "subscriptionGroup.json", await _groups(admin, address), out)
    elif "clusterName" in given:
        await _export_cluster(admin, given, out)
    else:
        raise UsageWanted


async def _export_cluster(admin: Admin, given: ParsedOptions, out: Output) -> None:
    topics: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for address in (await admin.clusters()).masters(given.text("clusterName")):
        found = (await _topics(admin, address, special="specialTopic" in given))["topicConfigTable"]
        _merge(topics, found, "readQueueNums", "writeQueueNums")
        _merge(groups, (await _groups(admin, address))["subscriptionGroupTable"], "retryQueueNums")
    wants_topics, wants_groups = "topic" in given, "subscriptionGroup" in given
    result: dict[str, Any] = {"exportTime": admin.now_ms}
    if wants_topics or not wants_groups:
        result["topicConfigTable"] = topics
    if not wants_topics:
        result["subscriptionGroupTable"] = groups
    name = "topic" if wants_topics else "subscriptionGroup" if wants_groups else "metadata"
    _write(given, f"{name}.json", result, out, "\n")


def _merge(all_found: dict[str, Any], more: dict[str, Any], *sums: str) -> None:
    """Add the configuration of one broker: numbers of queues are those of all of them."""
    for name, config in more.items():
        before = all_found.get(name)
        added = {each: config[each] + before[each] for each in sums} if before else {}
        all_found[name] = config | added


async def _topics(admin: Admin, address: str, *, special: bool) -> dict[str, Any]:
    """The topics of a broker that are not system topics; with retry topics if ``special``."""
    found = await topic_configs(admin, address)
    unwanted = await system_topics(admin, address)
    table = {
        name: dict(sorted(config.items()))
        for name, config in sorted(found["topicConfigTable"].items())
        if name not in unwanted and (special or not name.startswith((RETRY, DEAD)))
    }
    return {"dataVersion": found.get("dataVersion"), "topicConfigTable": table}


async def _groups(admin: Admin, address: str) -> dict[str, Any]:
    """The groups of a broker without the system's."""
    found = await group_configs(admin, address)
    table = {
        name: dict(sorted(config.items()))
        for name, config in sorted(found["subscriptionGroupTable"].items())
        if name not in _SYSTEM_GROUPS and not name.startswith(_SYSTEM_PREFIX)
    }
    return {"dataVersion": found.get("dataVersion"), "subscriptionGroupTable": table}


# --- settings -------------------------------------------------------------------------------------


async def export_configs(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The settings of a cluster's brokers, and how many there are."""
    configs: dict[str, Any] = {}
    masters = replicas = 0
    for broker in (await admin.clusters()).of(given.text("clusterName")):
        masters += 1
        replicas += sum(number != MASTER for number in broker.addresses)
        found = await broker_config(admin, broker.master or broker.any_address())
        configs[broker.name] = {name: found.get(name) for name in _CONFIGS}
    scale = {
        "namesrvSize": len(admin.name_servers),
        "masterBrokerSize": masters,
        "slaveBrokerSize": replicas,
    }
    _write(given, "configs.json", {"brokerConfigs": configs, "clusterScale": scale}, out)


# --- figures --------------------------------------------------------------------------------------


async def export_metrics(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The figures of a cluster's brokers, and their sums."""
    reports: dict[str, Any] = {}
    rates: dict[str, float] = {}
    totals: dict[str, int] = {}
    for broker in (await admin.clusters()).of(given.text("clusterName")):
        reports[broker.name] = report = await _report(admin, broker.master or broker.any_address())
        quota = report["runtimeQuota"]
        for name, rate in quota["tps"].items():
            total = f"total{name[0].upper()}{name[1:]}"
            rates[total] = rates.get(total, 0.0) + rate
        for name, count in quota["oneDayNum"].items():
            totals[name] = totals.get(name, 0) + count
    sums = {"totalTps": rates, "totalOneDayNum": totals}
    _write(given, "metrics.json", {"evaluateReport": reports, "totalData": sums}, out)


async def _report(admin: Admin, address: str) -> dict[str, Any]:
    figures, config = await runtime_info(admin, address), await broker_config(admin, address)
    groups = list((await _groups(admin, address))["subscriptionGroupTable"])
    return {
        "runtimeEnv": {
            "cpuNum": config.get("clientCallbackExecutorThreads"),
            "totalMemKBytes": figures.get("totalMemKBytes"),
        },
        "runtimeQuota": await _quota(admin, address, figures, len(groups)),
        "runtimeVersion": {
            "rocketmqVersion": version_name(PROTOCOL_VERSION),
            "clientInfo": sorted(
                {each for group in groups for each in await _clients(admin, group)}
            ),
        },
    }


async def _clients(admin: Admin, group: str) -> list[str]:
    try:
        found = sorted_connections(await admin.connections(group))
    except PenstockError:
        return []
    return [f"{each['language']}%{version_name(int(each['version']))}" for each in found]


async def _quota(
    admin: Admin, address: str, figures: dict[str, str], groups: int
) -> dict[str, Any]:
    half, half_total = await _put_stats(admin, address, _HALF)
    scheduled, scheduled_total = await _put_stats(admin, address, _SCHEDULE)
    disks = {name: figures.get(name) for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")}
    return {
        "diskRatio": disks,
        "tps": {
            "normalInTps": _first(figures.get("putTps", "")),
            "normalOutTps": _first(figures.get("getTransferedTps", "")),
            "transInTps": half,
            "scheduleInTps": scheduled,
        },
        "oneDayNum": {
            "normalOneDayInNum": _yesterday(figures, "msgPutTotal"),
            "normalOneDayOutNum": _yesterday(figures, "msgGetTotal"),
            "transOneDayInNum": half_total,
            "scheduleOneDayInNum": scheduled_total,
        },
        "messageAverageSize": figures.get("putMessageAverageSize"),
        "topicSize": len((await _topics(admin, address, special=False))["topicConfigTable"]),
        "groupSize": groups,
    }


async def _put_stats(admin: Admin, address: str, topic: str) -> tuple[float, int]:
    try:
        return await rates(admin, address, PUT, topic)
    except PenstockError:
        return 0.0, 0


def _first(rates: str) -> float:
    return float(rates.split()[0]) if rates.split() else 0.0


def _yesterday(figures: dict[str, str], name: str) -> int:
    morning, before = (figures.get(f"{name}{day}Morning", "0") for day in ("Today", "Yesterday"))
    return int(morning) - int(before)
