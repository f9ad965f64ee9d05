"""The progress of consumer groups, and how far behind they are (RocketMQ spec 2.4, 4.11)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.rocketmq.broker.admin.topic_stats import known_topic, stored_ms
from penstock.rocketmq.broker.answering import answers, json_answer
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.protocol.registration import TopicConfig
    from penstock.rocketmq.remoting import Connection


@answers(RequestCode.GET_CONSUME_STATS)
def consume_stats(controller: Controller, connection: Connection, request: Command) -> Command:
    """The offsets of a group in one topic, or in all it has committed offsets in."""
    group, topic = request.text("consumerGroup"), request.optional("topic")
    tps, table = 0.0, {}
    for config in _consumed(
        controller, group, [topic] if topic else controller.offsets.topics_of(group)
    ):
        table.update(_offsets(controller, group, config.name, config.read_queues))
        tps += controller.stats.got_per_second(config.name, group)
    return json_answer(request, {"consumeTps": tps, "offsetTable": table})


@answers(RequestCode.GET_BROKER_CONSUME_STATS)
def broker_consume_stats(
    controller: Controller, connection: Connection, request: Command
) -> Command:
    """The offsets of all groups, a list for each; ``isOrder`` leaves only ordered topics."""
    request.text("isOrder")
    only_ordered = request.boolean("isOrder")
    groups, behind = [], 0
    for group in controller.groups.configs:
        found = []
        for config in _consumed(controller, group, controller.offsets.topics_of(group)):
            if only_ordered and not config.order:
                continue
            table = _offsets(controller, group, config.name, config.write_queues)
            tps = controller.stats.got_per_second(config.name, group)
            found.append({"consumeTps": tps, "offsetTable": table})
            behind += sum(o["brokerOffset"] - o["consumerOffset"] for o in table.values())
        groups.append({group: found})
    return json_answer(request, {
        "brokerAddr": str(controller.address), "consumeStatsList": groups, "totalDiff": behind,
    })  # fmt: skip


def _consumed(controller: Controller, group: str, topics: Iterable[str]) -> list[TopicConfig]:
    """The topics that exist and that the group, if it is online, still subscribes."""
    configs = [controller.topics.get(topic) for topic in topics]
    return [c for c in configs if c is not None and not _gave_up(controller, group, c.name)]


def _gave_up(controller: Controller, group: str, topic: str) -> bool:
    online = controller.clients.consumers.get(group)
    return online is not None and bool(online.subscriptions) and topic not in online.subscriptions


def _offsets(
    controller: Controller, group: str, topic: str, queues: int
) -> dict[MessageQueue, dict[str, int]]:
    """The place of a group in each queue; ``lastTimestamp`` is of the message it consumed last."""
    table = {}
    for queue in range(queues):
        consumed = max(0, controller.offsets.query(topic, group, queue) or 0)
        last = stored_ms(controller, topic, queue, consumed - 1) if consumed else 0
        table[MessageQueue(controller.settings.broker_name, queue, topic)] = {
            "brokerOffset": controller.store.bounds(topic, queue)[1],
            "consumerOffset": consumed,
            "lastTimestamp": max(0, last),
        }
    return table


@answers(RequestCode.QUERY_CONSUME_TIME_SPAN)
def consume_time_span(controller: Controller, connection: Connection, request: Command) -> Command:
    """The store times of the messages in each queue, and the time up to which a group has them."""
    topic, group = request.text("topic"), request.text("group")
    queues = range(known_topic(controller, topic).write_queues)
    spans = [_span(controller, topic, group, queue) for queue in queues]
    return json_answer(request, {"consumeTimeSpanSet": spans})


def _span(controller: Controller, topic: str, group: str, queue: int) -> dict[str, Any]:
    """Times in ms, -1 for those of messages that are not there.

    ``delayTime`` is the age of the first message that was not consumed; 0 without one. (The
    Java broker gives the time since 1970 where a group has no offset.)
    """
    low, high = controller.store.bounds(topic, queue)
    next_ = max(low, controller.offsets.query(topic, group, queue) or 0)
    oldest = stored_ms(controller, topic, queue, low)
    times = {
        "minTimeStamp": oldest,
        "maxTimeStamp": stored_ms(controller, topic, queue, high - 1),
        "consumeTimeStamp": stored_ms(controller, topic, queue, next_ - 1)
        if next_ > low
        else oldest,
    }
    waiting = stored_ms(controller, topic, queue, next_) if next_ < high else -1
    return {
        **times,
        **{f"{name}Str": _date_and_time(ms) for name, ms in times.items()},
        "delayTime": max(0, controller.now_ms - waiting) if waiting >= 0 else 0,
        "messageQueue": MessageQueue(controller.settings.broker_name, queue, topic)._asdict(),
    }


def _date_and_time(ms: int) -> str:
    """A time in local time as the Java classes print it: ``2026-11-20#23:45:54:882``."""
    moment = datetime.fromtimestamp(ms // 1000)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{ms % 1000:03d}"


@answers(RequestCode.QUERY_CORRECTION_OFFSET)
def correction_offsets(controller: Controller, connection: Connection, request: Command) -> Command:
    """The least offset of each queue over all groups but some."""
    group, topic = request.text("compareGroup"), request.text("topic")
    without = set((request.optional("filterGroups") or "").split(","))
    return json_answer(
        request, {"correctionOffsets": controller.offsets.least(topic, group, without)}
    )


@answers(RequestCode.CLONE_GROUP_OFFSET)
def clone_offsets(controller: Controller, connection: Connection, request: Command) -> Command:
    """Let a group go on where another is, in one topic or in all.

    Unless ``offline``, topics that the other group no longer subscribes are left out.
    """
    source, target = request.text("srcGroup"), request.text("destGroup")
    topic = request.optional("topic")
    offline = request.boolean("offline")
    if source == target:
        return request.answer()
    for name in [topic] if topic else controller.offsets.topics_of(source):
        if controller.topics.get(name) and (offline or not _gave_up(controller, source, name)):
            controller.offsets.clone(source, target, name)
            for queue in controller.offsets.of(name, source):
                for listener in controller.offset_listeners:
                    listener((name, target), queue)
    controller.offsets_changed()
    return request.answer()
