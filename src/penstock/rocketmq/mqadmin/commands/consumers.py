"""The sub-command that shows what consumers do, as they tell themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.consume_stats import queue_table
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.connections import columns, sorted_connections
from penstock.rocketmq.mqadmin.java_text import compact_time, queue_text, word
from penstock.rocketmq.mqadmin.output import Output, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.protocol.membership import PUSHES

CLIENTS: Final = Table(
    "clients",
    "%-10d %-40s %-20s %s",
    "number clientId version file",
    ("#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile"),
)
_SETTLED_MS: Final = 120_000
_BLOCKED_MS: Final = 60_000
_QUEUE: Final = (
    "commitOffset", "cachedMsgMinOffset", "cachedMsgMaxOffset", "cachedMsgCount",
    "cachedMsgSizeInMiB", "transactionMsgMinOffset", "transactionMsgMaxOffset",
    "transactionMsgCount", "locked", "tryUnlockTimes", "lastLockTimestamp", "droped",
    "lastPullTimestamp", "lastConsumeTimestamp",
)  # fmt: skip
_RATES: Final = ("pullRT", "pullTPS", "consumeRT", "consumeOKTPS", "consumeFailedTPS")
RATES: Final = Table(
    "rates", "%-32s  %14.2f %14.2f %14.2f %14.2f %18.2f %25d",
    "topic pullRt pullTps consumeRt consumeOkTps consumeFailedTps consumeFailedInHour",
    ("#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS",
     "#ConsumeFailedMsgsInHour"), "%-64s  %14s %14s %14s %14s %18s %25s",
)  # fmt: skip


async def status(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """All members of a group with a file for each, or one member in full."""
    group, jstack = given.text("consumerGroup"), "jstack" in given
    found = await admin.connections(group, given.text("brokerAddr"))
    if "clientId" in given:
        info = await admin.running_info(group, given.text("clientId"), jstack=jstack)
        out.text(described(info))
        out.fact("runningInfo", plain(info))
        return
    folder = str(admin.now_ms)
    infos: dict[str, dict[str, Any]] = {}
    out.head(CLIENTS)
    for each in sorted_connections(found):
        client, _, _, version = columns(each)
        try:
            infos[client] = info = await admin.running_info(group, client, jstack=jstack)
        except PenstockError as error:
            out.say(f"{client}: {error}\n", clientId=client)
            continue
        file = f"{folder}/{client.replace('/', '_')}"
        if not out.as_json:
            _write(Path(file), info)
        out.row(CLIENTS, len(infos), client, version, file)
    out.fact("runningInfos", {client: plain(info) for client, info in infos.items()})
    if infos:
        _judge(infos, admin.now_ms, out)


def _write(file: Path, info: dict[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(described(info), encoding="utf-8")


def _judge(infos: dict[str, dict[str, Any]], now_ms: int, out: Output) -> None:
    same = is_same_subscription(list(infos.values()), now_ms)
    out.fact("isSameSubscription", same)
    if not same:
        out.text("\n\nWARN: Different subscription in the same group of consumer!!!")
        return
    out.text("\n\nSame subscription in the same group of consumer\n\nRebalance OK\n")
    for client in sorted(infos):
        for line in complaints(client, infos[client], now_ms):
            out.say(f"{line}\n", clientId=client)


def is_same_subscription(infos: list[dict[str, Any]], now_ms: int) -> bool:
    """False if members subscribe different things; they get two minutes to agree."""
    first = infos[0].get("properties") or {}
    started = int(first.get("PROP_CONSUMER_START_TIMESTAMP") or 0)
    if first.get("PROP_CONSUME_TYPE") != PUSHES or now_ms - started <= _SETTLED_MS:
        return True
    found = {
        frozenset(
            (str(each.get("topic")), str(each.get("subString")))
            for each in info.get("subscriptionSet") or ()
        )
        for info in infos
    }
    return len(found) == 1 and found != {frozenset()}


def complaints(client: str, info: dict[str, Any], now_ms: int) -> list[str]:
    """A line for each queue of a member that does not get on."""
    properties = info.get("properties") or {}
    if properties.get("PROP_CONSUME_TYPE") != PUSHES:
        return []
    is_orderly = str(properties.get("PROP_CONSUMEORDERLY")).lower() == "true"
    found = []
    for queue, each in queue_table(info.get("mqTable")).items():
        what = ""
        if not is_orderly:
            idle = now_ms - int(each.get("lastConsumeTimestamp") or 0)
            if idle > _BLOCKED_MS and int(each.get("cachedMsgCount") or 0) > 0:
                what = f"can't consume for a while, maybe blocked, {idle}ms"
        elif not each.get("locked"):
            waited = now_ms - int(each.get("lastLockTimestamp") or 0)
            what = f"can't lock for a while, {waited}ms"
        elif each.get("droped") and int(each.get("tryUnlockTimes") or 0) > 0:
            what = f"unlock {each['tryUnlockTimes']} times, still failed"
        if what:
            found.append(f"{client} {queue_text(queue)} {what}")
    return found


def plain(info: dict[str, Any]) -> dict[str, Any]:
    """A member's account with its table of queues as a list: JSON has no objects as keys."""
    queues = queue_table(info.get("mqTable"))
    return info | {"mqTable": [{**queue._asdict(), **each} for queue, each in queues.items()]}


def described(info: dict[str, Any]) -> str:
    """All that a member tells, in sections."""
    properties = info.get("properties") or {}
    lines = ["#Consumer Properties#"]
    lines += [f"{name:<40}: {word(properties[name])}" for name in sorted(properties)]
    lines += ["", "", "#Consumer Subscription#"]
    for number, each in enumerate(_subscriptions(info), 1):
        lines.append(
            f"{number:03} Topic: {each.get('topic'):<40} "
            f"ClassFilter: {word(each.get('classFilterMode')):<8} "
            f"SubExpression: {each.get('subString')}"
        )
    text = "\n".join(lines) + "\n" + _queues_text(info) + _rates_text(info)
    jstack = info.get("jstack")
    return text if jstack is None else f"{text}\n\n#Consumer jstack#\n{jstack}"


def _subscriptions(info: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(
        info.get("subscriptionSet") or (),
        key=lambda each: f"{each.get('topic')}@{each.get('subString')}",
    )


def _queues_text(info: dict[str, Any]) -> str:
    head = f"{'#Topic':<64}  {'#Broker Name':<32}  {'#QID':<4}  "
    offsets = ["", "", "#Consumer Offset#", f"{head}{'#Consumer Offset':<20}"]
    details = ["", "", "#Consumer MQ Detail#", f"{head}{'#ProcessQueueInfo':<20}"]
    for queue, each in queue_table(info.get("mqTable")).items():
        place = f"{queue.brokerName:<32}  {queue.queueId:<4}  "
        offsets.append(f"{queue.topic:<32}  {place}{int(each.get('commitOffset') or 0):<20}")
        details.append(f"{queue.topic:<64}  {place}{_queue_info(each)}")
    return "\n".join([*offsets, *details]) + "\n"


def _queue_info(each: dict[str, Any]) -> str:
    values = {**each, "transactionMsgCount": each.get("transactionMsgCnt", 0)}
    shown = (
        compact_time(int(values.get(name) or 0))
        if name.endswith("Timestamp")
        else word(values.get(name, 0))
        for name in _QUEUE
    )
    pairs = zip(_QUEUE, shown, strict=True)
    return "ProcessQueueInfo [" + ", ".join(f"{name}={text}" for name, text in pairs) + "]"


def _rates_text(info: dict[str, Any]) -> str:
    lines = ["", "", "#Consumer RT&TPS#", RATES.head()]
    table = info.get("statusTable") or {}
    for topic in sorted(table):
        rates = tuple(float(table[topic].get(name) or 0.0) for name in _RATES)
        failed = int(table[topic].get("consumeFailedMsgs") or 0)
        lines.append(RATES.line(topic, *rates, failed))
    return "\n".join(lines) + "\n"
