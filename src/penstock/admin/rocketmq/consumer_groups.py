"""Consumer groups of RocketMQ: all of them, and one with its members and queues."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from penstock.admin.rocketmq.group_rates import GroupRates
from penstock.admin.rocketmq.group_settings import all_settings, known_settings, shown
from penstock.admin.rocketmq.lags import Reading, readings
from penstock.admin.rocketmq.names import is_system_group
from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.admin.rocketmq.topics import consumers, sums_of
from penstock.admin.rocketmq.verdicts import GroupFacts, of_group
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.v1_api import ApiError
from penstock.rocketmq.client.admin.clients import running_info
from penstock.rocketmq.client.admin.consume_stats import ConsumeStats, group_stats, queue_table
from penstock.rocketmq.client.admin.topology import Broker
from penstock.rocketmq.client.names import DEAD, RETRY
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.versions import version_name

ONLINE_MAX: Final = 500
"""Groups whose members the list counts: one request to each broker."""
MEMBERS_MAX: Final = 64
"""Members of a group that are asked what they hold."""
LETTERS_MAX: Final = 300
"""Groups whose letters are counted: one request to each broker."""
_FAILED: Final = (ResponseCode.SYSTEM_ERROR, ResponseCode.CONSUMER_NOT_ONLINE)
_HELD: Final = {
    "cached": "cachedMsgCount",
    "cached_mib": "cachedMsgSizeInMiB",
    "pulled_ms": "lastPullTimestamp",
    "consumed_ms": "lastConsumeTimestamp",
    "locked_ms": "lastLockTimestamp",
}
_RATES: Final = {
    "pull_rate": "pullTPS",
    "pull_time_ms": "pullRT",
    "ok_rate": "consumeOKTPS",
    "failed_rate": "consumeFailedTPS",
    "consume_time_ms": "consumeRT",
    "failed_messages": "consumeFailedMsgs",
}


async def all_groups(servers: Servers, rates: GroupRates) -> dict[str, Any]:
    """Every group with its lag, how many members it has, and what is the matter with it."""
    warnings = Warnings()
    found, brokers = await readings(servers, await servers.brokers(), warnings)
    consuming = await _consuming(servers, brokers, warnings)
    for group in consuming:
        # A group that was configured and never consumed has no offsets.
        found.setdefault(group, Reading(group))
    listed = [found[name] for name in sorted(found)]
    rates.take(servers.now_ms / 1000, listed)
    letters = await dead_letter_counts(servers, brokers, warnings)

    async def ask(reading: Reading) -> dict[str, Any]:
        return _members([await consumers(servers, each, reading.group) for each in brokers])

    online = {
        reading.group: told for reading, told in await gathered(listed[:ONLINE_MAX], ask, warnings)
    }
    rows = [_row(each, online.get(each.group)) for each in listed]
    for row in rows:
        group = row["group"]
        row["letters"] = letters.get(group, DeadLetterCount()).kept
        row["verdicts"] = of_group(
            GroupFacts(
                row["lag"],
                row["members"],
                row["model"],
                rates.of(group),
                consuming.get(group, True),
                *letters.get(group, ()),
            )
        )
    return {"groups": rows, "message": warnings.message}


async def _consuming(
    servers: Servers, brokers: list[Broker], warnings: Warnings
) -> dict[str, bool]:
    """The groups, and whether each may consume from every broker."""
    table: dict[str, bool] = {}

    async def ask(broker: Broker) -> dict[str, dict[str, Any]]:
        return await all_settings(servers, broker)

    for _, found in await gathered(brokers, ask, warnings):
        for group, config in found.items():
            if not is_system_group(group):
                table[group] = table.get(group, True) and bool(shown(config)["consumes"])
    return table


def _row(reading: Reading, online: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "group": reading.group,
        "topics": sorted(reading.lags),
        "lag": reading.lag,
        "tps": reading.tps,
        "last_ms": reading.last_ms,
        "members": len(online["members"]) if online is not None else None,
        **{name: online[name] if online else "" for name in ("type", "model")},
    }


def _members(told: list[dict[str, Any]]) -> dict[str, Any]:
    """A group as all brokers together know it; members by their ids."""
    whole: dict[str, Any] = {
        "members": {},
        "type": "",
        "model": "",
        "from_where": "",
        "subscriptions": {},
    }
    for each in filter(None, told):
        whole["type"] = str(each.get("consumeType") or "")
        whole["model"] = str(each.get("messageModel") or "")
        whole["from_where"] = str(each.get("consumeFromWhere") or "")
        for topic, wanted in (each.get("subscriptionTable") or {}).items():
            whole["subscriptions"][str(topic)] = {
                "topic": str(topic),
                "expression": str(wanted.get("subString") or ""),
                "type": str(wanted.get("expressionType") or "TAG"),
            }
        for member in each.get("connectionSet") or ():
            client = str(member["clientId"])
            whole["members"][client] = {
                "client": client,
                "address": str(member["clientAddr"]),
                "language": str(member["language"]),
                "version": version_name(int(member["version"])),
            }
    return whole


async def one_group(servers: Servers, rates: GroupRates, group: str) -> dict[str, Any]:
    """A group with its members and their queues. Raises ApiError 404."""
    warnings = Warnings()
    brokers = await servers.brokers()

    async def ask(broker: Broker) -> tuple[dict[str, Any], ConsumeStats]:
        told = await consumers(servers, broker, group)
        return told, await group_stats(servers, broker.any_address(), group)

    told = await gathered(brokers, ask, warnings, but=_FAILED)
    whole = _members([each for _, (each, _) in told])
    where = {
        str(member["clientId"]): broker
        for broker, (each, _) in told
        for member in each.get("connectionSet") or ()
    }
    stats = ConsumeStats()
    for _, (_, part) in told:
        stats.tps += part.tps
        stats.queues |= part.queues
    answered = [broker for broker, _ in told]
    known = await known_settings(servers, answered, group, warnings)
    configs = [{"broker": name} | shown(config) for name, config in known.items() if config]
    if not (where or stats.queues or configs or warnings.errors):
        raise ApiError(404, "GROUP_NOT_FOUND")
    infos = await _running_infos(servers, group, where, warnings)
    kept = await _kept(servers, answered, group, warnings)
    dead = kept[DEAD]
    facts = GroupFacts(
        stats.lag,
        len(whole["members"]),
        whole["model"],
        rates.of(group),
        all(config["consumes"] for config in configs),
        dead["kept"],
        dead["last_ms"],
    )
    return {
        "group": group,
        **{name: whole[name] for name in ("type", "model", "from_where")},
        "subscriptions": [whole["subscriptions"][each] for each in sorted(whole["subscriptions"])],
        "members": [
            whole["members"][client] | _doing(infos.get(client))
            for client in sorted(whole["members"])
        ],
        "queues": _queues(stats, infos),
        "lag": stats.lag,
        "tps": stats.tps,
        "letters": dead["kept"],
        "retries": kept[RETRY]["kept"],
        "verdicts": of_group(facts),
        "configs": configs,
        "message": warnings.message,
    }


async def _kept(
    servers: Servers, brokers: list[Broker], group: str, warnings: Warnings
) -> dict[str, dict[str, int]]:
    """The figures of a group's own topics, by the prefixes of their names."""

    async def ask(prefix: str) -> dict[str, int]:
        return await sums_of(servers, brokers, prefix + group)

    nothing = {"kept": 0, "last_ms": 0}
    told = dict(await gathered((RETRY, DEAD), ask, warnings))
    return {RETRY: nothing, DEAD: nothing} | told


async def _running_infos(
    servers: Servers, group: str, where: dict[str, Broker], warnings: Warnings
) -> dict[str, dict[str, Any]]:
    """The word of each member of itself, asked through a broker that it is connected to."""

    async def ask(client: str) -> dict[str, Any]:
        return await running_info(servers, where[client].any_address(), group, client)

    return dict(await gathered(sorted(where)[:MEMBERS_MAX], ask, warnings, but=_FAILED))


def _doing(info: dict[str, Any] | None) -> dict[str, Any]:
    """The queues and rates of a member; null where it did not say."""
    if info is None:
        return {"queues": None, "topics": None, "started_ms": None, "orderly": None}
    properties = info.get("properties") or {}
    table = info.get("statusTable") or {}
    started = str(properties.get("PROP_CONSUMER_START_TIMESTAMP") or "")
    return {
        "queues": len(info.get("mqTable") or ()),
        "topics": [
            {"topic": str(topic)}
            | {name: float(table[topic].get(key) or 0) for name, key in _RATES.items()}
            for topic in sorted(table)
        ],
        "started_ms": int(started) if started.isdecimal() else None,
        "orderly": str(properties.get("PROP_CONSUMEORDERLY", "")).lower() == "true",
    }


def _queues(stats: ConsumeStats, infos: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Each queue that the group reads or a member has, and the member that has it."""
    held = {
        queue: _hold(client, each)
        for client, info in infos.items()
        for queue, each in queue_table(info.get("mqTable")).items()
    }
    rows = []
    for queue in sorted({*stats.queues, *held}):
        each = stats.queues.get(queue)
        rows.append(
            _place(queue)
            | {
                "end": each.broker_offset if each else None,
                "committed": each.consumer_offset if each else None,
                "lag": each.lag if each else None,
                "last_ms": each.last_ms if each else None,
                "held": held.get(queue),
            }
        )
    return rows


def _hold(client: str, each: dict[str, Any]) -> dict[str, Any]:
    figures = {name: int(each.get(key) or 0) for name, key in _HELD.items()}
    return {"client": client, "locked": bool(each.get("locked")), **figures}


def _place(queue: MessageQueue) -> dict[str, Any]:
    return {"topic": queue.topic, "broker": queue.brokerName, "queue": queue.queueId}


class DeadLetterCount(NamedTuple):
    """The dead letters of a group: the number kept, and the newest one's store time (Unix ms)."""

    kept: int = 0
    last_ms: int = 0


async def dead_letter_counts(
    servers: Servers, brokers: list[Broker], warnings: Warnings
) -> dict[str, DeadLetterCount]:
    """The letters by group, of LETTERS_MAX groups: brokers keep them in a topic of each."""
    topics = [each for each in await servers.topics() if each.startswith(DEAD)]

    async def ask(topic: str) -> DeadLetterCount:
        sums = await sums_of(servers, brokers, topic)
        return DeadLetterCount(sums["kept"], sums["last_ms"])

    told = await gathered(topics[:LETTERS_MAX], ask, warnings)
    return {topic.removeprefix(DEAD): found for topic, found in told}
