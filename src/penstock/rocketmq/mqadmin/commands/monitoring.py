"""The sub-command that looks after all groups: what they have not done, which clients hang."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.consume_stats import Progress, consume_stats
from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.names import RETRY
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.connections import sorted_connections
from penstock.rocketmq.mqadmin.commands.consumers import complaints, is_same_subscription
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.mqadmin.queues import Reader
from penstock.rocketmq.mqadmin.rounds import every
from penstock.rocketmq.protocol.message_queue import MessageQueue

ROUND_S: Final = 60.0
_PREFIX: Final = "[MONITOR] "
_NOTIFY: Final = f"{_PREFIX} [NOTIFY] reportConsumerRunningInfo: "
_RULE: Final = "=" * 41


async def monitor(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Look after all groups, once a minute."""
    await every(admin, ROUND_S, lambda: look(admin, out), out)


async def look(admin: Admin, out: Output) -> None:
    """One round."""
    out.text(f"{_PREFIX}{_RULE}beginRound\n")
    for topic in await admin.topics():
        if topic.startswith(RETRY):
            group = topic.removeprefix(RETRY)
            with suppress(PenstockError):
                await _report_undone(admin, group, out)
            with suppress(PenstockError):
                await _report_members(admin, group, out)
    out.text(f"{_PREFIX}{_RULE}endRound\n")


async def _report_undone(admin: Admin, group: str, out: Output) -> None:
    """The backlog of a group with members, by topic."""
    stats = await consume_stats(admin, group)
    await admin.connections(group)
    reader = Reader(admin)
    for topic in dict.fromkeys(queue.topic for queue in stats.queues):
        own = {queue: each for queue, each in stats.queues.items() if queue.topic == topic}
        lags = [max(0, each.lag) for each in own.values()]
        delays = [await _delay_ms(reader, queue, each) for queue, each in own.items()]
        figures = {
            "consumerGroup": group,
            "topic": topic,
            "undoneMsgsTotal": sum(lags),
            "undoneMsgsSingleMQ": max(lags),
            "undoneMsgsDelayTimeMills": max(delays),
        }
        shown = ", ".join(f"{name}={value}" for name, value in figures.items())
        out.say(f"{_PREFIX}reportUndoneMsgs: UndoneMsgs [{shown}]\n", **figures)


async def _delay_ms(reader: Reader, queue: MessageQueue, each: Progress) -> int:
    """The time between the group's newest message and the queue's newest."""
    if each.last_ms <= 0:
        return 0
    try:
        end = await reader.end(queue)
        found = (await reader.pull(queue, end - 1, Filter(), 1)).messages if end > 0 else []
    except PenstockError:
        return 0
    return max((one.stored.store_ms - each.last_ms for one in found), default=0)


async def _report_members(admin: Admin, group: str, out: Output) -> None:
    """Members that subscribe different things, and queues that do not get on."""
    infos = {}
    for each in sorted_connections(await admin.connections(group)):
        client = str(each["clientId"])
        with suppress(PenstockError):
            infos[client] = await admin.running_info(group, client)
    now_ms = admin.now_ms
    if infos and not is_same_subscription(list(infos.values()), now_ms):
        text = f"{_NOTIFY}ConsumerGroup: {group}, Subscription different\n"
        out.say(text, consumerGroup=group)
    for client, info in infos.items():
        for line in complaints(client, info, now_ms):
            text = f"{_NOTIFY}ConsumerGroup: {group}, ClientId: {client}, {line}\n"
            out.say(text, consumerGroup=group, clientId=client)
