"""Sub-commands that print what topics and queues hold."""

from __future__ import annotations

from collections import Counter
from typing import Final

from penstock.rocketmq.client.consume.pulling import Pulled, PullStatus
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.messages.finding import record
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.java_text import message_text, parse_time, queue_text
from penstock.rocketmq.mqadmin.output import Output, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.mqadmin.queues import Reader
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.requests import TOOLS_GROUP

TAGS: Final = Table("tags", "Tag: %-30s Count: %s", "tag count")
_AT_ONCE: Final = 32
_RULE: Final = "-" * 56 + "\n"
_DEFAULT_COUNT: Final = 128


async def print_msg(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Print the messages of a topic, queue by queue."""
    reader = Reader(admin)
    with_body = given.is_true("printBody", True)
    for queue in await reader.queues(given.text("topic")):
        start, end = await _bounds(reader, queue, given)
        out.text(f"minOffset={start}, maxOffset={end}, {queue_text(queue)}\n")
        async for found in reader.pulls(queue, start, end, _expression(given), _AT_ONCE):
            _print_all(found, given, out, with_body=with_body)
            if not _goes_on(queue, found, out):
                break
        out.text(_RULE)


def _goes_on(queue: MessageQueue, found: Pulled, out: Output) -> bool:
    """Tell of a pull without messages; False at the end of the queue."""
    if found.status is PullStatus.FOUND:
        return True
    goes_on = found.status is PullStatus.NO_MATCHED_MSG
    what = "no matched msg." if goes_on else "print msg finished."
    told = f"status={found.status.name}, offset={found.next_offset}"
    out.text(f"{queue_text(queue)} {what} {told}\n")
    return goes_on


async def print_msg_by_queue(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Print the messages of a queue, or count its tags."""
    reader = Reader(admin)
    queue = MessageQueue(given.text("brokerName"), given.number("queueId"), given.text("topic"))
    start, end = await _bounds(reader, queue, given)
    tags: Counter[str] = Counter()
    async for found in reader.pulls(queue, start, end, _expression(given), _AT_ONCE):
        if found.status is not PullStatus.FOUND:
            break
        tags.update(each.tags for each in found.messages if each.tags.strip())
        if given.is_true("print msg"):
            _print_all(found, given, out, with_body=given.is_true("printBody"))
    if given.is_true("calculate"):
        for tag, count in tags.most_common():
            out.row(TAGS, tag, count)


async def _bounds(reader: Reader, queue: MessageQueue, given: ParsedOptions) -> tuple[int, int]:
    """The offsets between the times given, of the whole queue otherwise."""
    start = (
        await reader.at(queue, parse_time(given.text("beginTimestamp")))
        if "beginTimestamp" in given
        else await reader.first(queue)
    )
    end = (
        await reader.at(queue, parse_time(given.text("endTimestamp")))
        if "endTimestamp" in given
        else await reader.end(queue)
    )
    return start, end


def _expression(given: ParsedOptions) -> str:
    return given.text("subExpression", "*")


def _print_all(found: Pulled, given: ParsedOptions, out: Output, *, with_body: bool) -> None:
    charset = given.text("charsetName", "UTF-8")
    for each in found.messages:
        each.properties["MIN_OFFSET"] = str(found.min_offset)
        each.properties["MAX_OFFSET"] = str(found.max_offset)
        if not out.as_json:
            out.text(_line(each, charset, with_body=with_body))
        out.add("messages", record(each))


def _line(message: Received, charset: str, *, with_body: bool) -> str:
    try:
        body = message.body.decode(charset, "replace") if with_body else "NOT PRINT BODY"
    except LookupError:
        raise CommandFailed(f"--charsetName {charset!r} is not an encoding, give UTF-8") from None
    return f"MSGID: {message.id} {message_text(message)} BODY: {body}\n"


async def consume_message(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Print the oldest messages of a topic or a queue."""
    count = given.number("MessageNumber", _DEFAULT_COUNT)
    refusal = _contradiction(admin, given, count)
    if refusal:
        out.say(refusal)
        return
    reader = Reader(admin, given.text("consumerGroup", TOOLS_GROUP))
    if "queueId" in given:
        await _consume_queue(reader, given, count, out)
        return
    for queue in await reader.queues(given.text("topic")):
        if count == 0:
            return
        start, end = await _bounds(reader, queue, given)
        if end - start > count:
            out.text(f"The older {count} message of the {queue.queueId} queue will be provided\n")
            end, count = start + count - 1, 0
        else:
            count = count - (end - start) - 1
        await _consume(reader, queue, start, end, given, out)


def _contradiction(admin: Admin, given: ParsedOptions, count: int) -> str:
    """The reason why the options cannot be used together; empty when they can."""
    if count <= 0:
        return "Please input a positive messageNumber!"
    if "queueId" in given and "brokerName" not in given:
        return "Please set the brokerName before queueId!"
    if "offset" in given and "queueId" not in given:
        return "Please set queueId before offset!"
    times = {
        name: parse_time(given.text(name))
        for name in ("beginTimestamp", "endTimestamp")
        if name in given
    }
    for name, at in times.items():
        if at > admin.now_ms:
            return f"Please set the {name} before now!"
    begin, end = times.get("beginTimestamp", 0), times.get("endTimestamp")
    if end is not None and begin > end:
        return "Please make sure that the beginTimestamp is less than or equal to the endTimestamp"
    return ""


async def _consume_queue(reader: Reader, given: ParsedOptions, count: int, out: Output) -> None:
    queue = MessageQueue(given.text("brokerName"), given.number("queueId"), given.text("topic"))
    offset = given.number("offset")
    start, end = await _bounds(reader, queue, given)
    if offset > end:
        out.say(f"{queue_text(queue)} no matched msg, offset={offset}\n")
        return
    start = max(start, offset)
    if end - start > count:
        out.text(f"The oldler {count} message will be provided\n")
        end = start + count - 1
    await _consume(reader, queue, start, end, given, out)


async def _consume(
    reader: Reader, queue: MessageQueue, start: int, end: int, given: ParsedOptions, out: Output
) -> None:
    """Print from ``start`` to ``end``, that one included."""
    most = max(1, end - start + 1)
    async for found in reader.pulls(queue, start, end + 1, "*", most):
        if found.status is PullStatus.FOUND:
            out.text("Consume ok\n")
            _print_all(found, given, out, with_body=True)
        elif not _goes_on(queue, found, out):
            return
