"""Sub-commands that set groups to other offsets."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from penstock.rocketmq.mqadmin import consume_stats
from penstock.rocketmq.mqadmin.admin import LONG_TIMEOUT_S, RETRY, TIMEOUT_S, Admin
from penstock.rocketmq.mqadmin.consume_stats import Progress, queue_table
from penstock.rocketmq.mqadmin.errors import Refused
from penstock.rocketmq.mqadmin.java_text import cut, parse_time, word
from penstock.rocketmq.mqadmin.options import Given
from penstock.rocketmq.mqadmin.output import Output, Table
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.message_queue import MessageQueue

RESET: Final = Table(
    "queues", "%-40s  %-40d  %-40d", "broker queue offset", ("#brokerName", "#queueId", "#offset")
)
ROLLED_BACK: Final = Table(
    "queues", "%-20s  %-20d  %-20d  %-20d  %-20d  %-20d",
    "broker queue brokerOffset consumerOffset timestampOffset rollbackOffset",
    ("#brokerName", "#queueId", "#brokerOffset", "#consumerOffset", "#timestampOffset",
     "#rollbackOffset"),
)  # fmt: skip
_TO_THE_END: Final = -1


class Wish(NamedTuple):
    """A group, a topic, the time to go to, and whether to go forth as well as back."""

    group: str
    topic: str
    timestamp_ms: int
    force: bool


def reset(admin: Admin, given: Given, out: Output) -> None:
    """Let a group go on at a time, while its consumers run or while they do not."""
    text = given.text("timestamp")
    timestamp = _TO_THE_END if text == "now" else parse_time(text)
    wish = _wish(given, timestamp)
    told = (
        f"[{wish.group}], topic[{wish.topic}], force[{word(wish.force)}], "
        f"timestamp(string)[{text}], timestamp(long)[{timestamp}]\n"
    )
    try:
        found = _reset_online(admin, wish, is_cpp="cplus" in given)
    except Refused as error:
        _only_offline(error)
        rows = _reset_offline(admin, wish)
        out.text(f"rollback consumer offset by specified consumerGroup{told}")
        _show_offline(rows, out)
        return
    out.text(f"rollback consumer offset by specified group{told}")
    _show_online(found, out)


def skip(admin: Admin, given: Given, out: Output) -> None:
    """Let a group go on at the end of all queues."""
    wish = _wish(given, _TO_THE_END)
    try:
        _show_online(_reset_online(admin, wish), out)
    except Refused as error:
        _only_offline(error)
        _show_offline(_reset_offline(admin, wish), out)


def _wish(given: Given, timestamp_ms: int) -> Wish:
    force = given.is_true("force", True)
    return Wish(given.text("group"), given.text("topic"), timestamp_ms, force)


def _only_offline(error: Refused) -> None:
    if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
        raise error


def _show_online(found: dict[MessageQueue, int], out: Output) -> None:
    out.head(RESET)
    for queue, offset in found.items():
        out.row(RESET, cut(queue.brokerName, 32), queue.queueId, offset)


def _show_offline(rows: list[tuple[Any, ...]], out: Output) -> None:
    out.head(ROLLED_BACK)
    for row in rows:
        out.row(ROLLED_BACK, *row)


def _reset_online(admin: Admin, wish: Wish, *, is_cpp: bool = False) -> dict[MessageQueue, int]:
    """Let the brokers tell the group's consumers where to go on."""
    fields = {
        "topic": wish.topic, "group": wish.group, "timestamp": str(wish.timestamp_ms),
        "isForce": word(wish.force),
    }  # fmt: skip
    found: dict[MessageQueue, int] = {}
    for address in admin.route(wish.topic).addresses:
        request = Command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, 0, dict(fields))
        if is_cpp:  # such clients want the table as a list, and are told so by the language
            request.language = Language.CPP
        answer = admin.hub.wait_for(admin.hub.asked(address, request, TIMEOUT_S))
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, answer.remark)
        found |= _offsets(fastjson.loads(answer.body).get("offsetTable") or {})
    return found


def _offsets(table: Any) -> dict[MessageQueue, int]:
    if isinstance(table, list):
        return {MessageQueue.from_json(each): int(each["offset"]) for each in table}
    return {queue: int(offset) for queue, offset in queue_table(table).items()}


def _reset_offline(admin: Admin, wish: Wish) -> list[tuple[Any, ...]]:
    """Commit the offsets for a group that nobody is in; a row for each queue."""
    rows = []
    for broker in admin.route(wish.topic).brokers:
        address = broker.any_address()
        for queue, each in _progress(admin, address, wish).items():
            at = _offset_at(admin, address, queue, wish.timestamp_ms)
            goes = wish.force or at <= each.consumer_offset
            if goes:
                commit(admin, address, wish.group, queue, at)
            rows.append(
                (cut(broker.name, 32), queue.queueId, each.broker_offset, each.consumer_offset, at,
                 at if goes else each.consumer_offset)
            )  # fmt: skip
    return rows


def _progress(admin: Admin, address: str, wish: Wish) -> dict[MessageQueue, Progress]:
    """The group in a broker's queues of the topic; at their beginning if it was never there."""
    fields = {"consumerGroup": wish.group}
    code = RequestCode.GET_CONSUME_STATS
    stats = consume_stats.parse(admin.ask_json(address, code, fields, seconds=LONG_TIMEOUT_S))
    found = {queue: each for queue, each in stats.queues.items() if queue.topic == wish.topic}
    if found:
        return found
    code = RequestCode.GET_TOPIC_STATS_INFO
    table = queue_table(admin.ask_json(address, code, {"topic": wish.topic}).get("offsetTable"))
    return {
        queue: Progress(int(each["maxOffset"]), int(each["minOffset"]), 0)
        for queue, each in table.items()
    }


def _offset_at(admin: Admin, address: str, queue: MessageQueue, timestamp_ms: int) -> int:
    fields: dict[str, object] = {"topic": queue.topic, "queueId": queue.queueId}
    code = RequestCode.GET_MAX_OFFSET
    if timestamp_ms != _TO_THE_END:
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        fields["timestamp"] = timestamp_ms
    return admin.ask(address, code, fields).int64("offset")


def commit(admin: Admin, address: str, group: str, queue: MessageQueue, offset: int) -> None:
    """Set a group to an offset of a queue."""
    fields = {
        "consumerGroup": group, "topic": queue.topic, "queueId": queue.queueId,
        "commitOffset": offset,
    }  # fmt: skip
    admin.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)


def clone(admin: Admin, given: Given, out: Output) -> None:
    """Set a group to where another one is."""
    source, target, topic = given.text("srcGroup"), given.text("destGroup"), given.text("topic")
    stats = consume_stats.consume_stats(admin, source)
    # The group's other topics, which go with it as in Java, may be where this one is not.
    routes = admin.route(RETRY + source), admin.route(topic)
    addresses = {each.name: each.any_address() for route in routes for each in route.brokers}
    for queue, each in stats.queues.items():
        if each.consumer_offset >= 0:
            commit(admin, addresses[queue.brokerName], target, queue, each.consumer_offset)
    out.say(
        f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]",
        srcGroup=source, destGroup=target, topic=topic,
    )  # fmt: skip
