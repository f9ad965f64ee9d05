"""Sub-commands that look for messages: by id, by key, by place."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path
from typing import Any, Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin import messages
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.topology import Broker
from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import ClientError, NotConnected
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.messages.resend import resend
from penstock.rocketmq.mqadmin.java_text import map_text, to_millisecond, word
from penstock.rocketmq.mqadmin.output import Output, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.mqadmin.queues import Reader
from penstock.rocketmq.mqadmin.tracks import tracks
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.message_queue import MessageQueue

BY_KEY: Final = Table(
    "messages", "%-50s %4d %40d", "id queue offset", ("#Message ID", "#QID", "#Offset")
)
BODIES: Final = Path("/tmp/rocketmq/msgbodys")
_MOST_BY_KEY: Final = 64
_MOST_BY_UNIQUE_KEY: Final = 32
_HARMLESS: Final = re.compile(r"\w+")
_NO_MESSAGE: Final = "query message by {} finished, but no message."


async def view(admin: Admin, offset_id: str) -> Received:
    """The message with this id of its broker. Raises Refused where there is none."""
    try:
        place = OffsetId.parse(offset_id)
    except BodyError:
        raise Refused(ResponseCode.NO_MESSAGE, _NO_MESSAGE.format("id")) from None
    return (await messages.at_offset(admin, str(place.host), place.offset))[0]


async def with_key(
    admin: Admin, topic: str, key: str, most: int, *, is_unique: bool = False
) -> list[Received]:
    """The messages of a topic with a key, of the brokers that answer.

    Raises Refused where there are none, ClientError if one of the brokers cannot be asked then.
    """
    query = messages.KeyQuery(topic, key, is_unique)
    found: list[Received] = []
    failure: ClientError | None = None
    for broker in await _brokers(admin, topic):
        try:
            found += await messages.with_key(admin, broker.any_address(), query, most)
        except Refused:
            continue  # it has none
        except NotConnected as error:
            failure = failure or error
    if failure is not None and not found:
        raise failure
    if not found:
        raise Refused(ResponseCode.NO_MESSAGE, _NO_MESSAGE.format("key"))
    return found


async def _brokers(admin: Admin, topic: str) -> list[Broker]:
    try:
        return (await admin.route(topic)).brokers
    except Refused as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            error = Refused(error.code, f"The topic[{topic}] not matched route info")
        raise error from None


async def query_msg_by_id(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Show messages, have them consumed, or send them again."""
    for message_id in filter(None, map(str.strip, given.text("msgId").split(","))):
        if "consumerGroup" in given and "clientId" in given:
            message = await view(admin, message_id)
            await _consume_directly(admin, given, message, out)
        elif "sendMessage" not in given:
            await _show(admin, await view(admin, message_id), out)
        elif given.is_true("sendMessage"):
            resend(admin, await view(admin, message_id), given.text("unitName"), out)


async def query_msg_by_key(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """List the messages with a key."""
    found = await with_key(admin, given.text("topic"), given.text("msgKey"), _MOST_BY_KEY)
    out.head(BY_KEY)
    for each in found:
        out.row(BY_KEY, each.id, each.stored.queue, each.queue_offset)


async def query_msg_by_unique_key(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Show the message with the id that its producer gave it, or have it consumed."""
    topic, key = given.text("topic"), given.text("msgId")
    found = await with_key(admin, topic, key, _MOST_BY_UNIQUE_KEY, is_unique=True)
    found.sort(key=lambda each: each.stored.store_ms)
    if "consumerGroup" in given and "clientId" in given:
        await _consume_directly(admin, given, found[0], out)
        return
    for number, each in enumerate(found if "showAll" in given else found[:1]):
        await _show(admin, each, out, number, with_offset_id=False)


async def query_msg_by_offset(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Show the message at a place of a queue."""
    queue = MessageQueue(given.text("brokerName"), given.number("queueId"), given.text("topic"))
    await admin.route(queue.topic)
    found = await Reader(admin).pull(queue, given.number("offset"), Filter(), 1)
    for each in found.messages[:1]:
        each.properties["MIN_OFFSET"] = str(found.min_offset)
        each.properties["MAX_OFFSET"] = str(found.max_offset)
        await _show(admin, each, out)


async def _consume_directly(
    admin: Admin, given: ParsedOptions, message: Received, out: Output
) -> None:
    """Have one consumer handle a message now."""
    group, member = given.text("consumerGroup"), given.text("clientId")
    address, message_id = message.store_host, message.offset_id
    found = await messages.consume_directly(admin, address, group, member, message_id)
    names = ("order", "autoCommit", "consumeResult", "remark", "spentTimeMills")
    shown = ", ".join(f"{name}={word(found.get(name))}" for name in names)
    out.say(f"ConsumeMessageDirectlyResult [{shown}]", **{name: found.get(name) for name in names})


async def _show(
    admin: Admin, message: Received, out: Output, number: int = 0, *, with_offset_id: bool = True
) -> None:
    """All that there is to a message, its body in a file, and what became of it."""
    stored = message.stored
    shown: dict[str, Any] = {"OffsetID:": message.offset_id} if with_offset_id else {}
    shown |= {
        "Topic:": stored.topic,
        "Tags:": f"[{message.tags or 'null'}]",
        "Keys:": f"[{message.properties.get('KEYS', 'null')}]",
        "Queue ID:": stored.queue,
        "Queue Offset:": stored.queue_offset,
        "CommitLog Offset:": stored.physical_offset,
        "Reconsume Times:": stored.reconsume_times,
        "Born Timestamp:": to_millisecond(stored.born_ms),
        "Store Timestamp:": to_millisecond(stored.store_ms),
        "Born Host:": message.born_host,
        "Store Host:": message.store_host,
        "System Flag:": stored.sys_flag,
        "Properties:": map_text(message.properties),
    }
    if not out.as_json:
        shown["Message Body Path:"] = _body_file(message, number)
        out.text("".join(f"{name:<20} {value}\n" for name, value in shown.items()))
    try:
        found = await tracks(admin, stored)
    except PenstockError as error:
        out.text(f"{error}\n")
        found = []
    else:
        out.text("\n\n" + "".join(map(str, found)) if found else "\n\nWARN: No Consumer")
    out.add("messages", record(message) | {"tracks": [each._asdict() for each in found]})


def record(message: Received) -> dict[str, Any]:
    """A message in JSON; ``bodyBase64`` has a body that is not text."""
    stored = message.stored
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"bodyBase64": b64encode(message.body).decode()}
    return {
        "id": message.id, "offsetId": message.offset_id, "topic": stored.topic,
        "tags": message.tags, "keys": message.keys, "queue": stored.queue,
        "queueOffset": stored.queue_offset, "commitLogOffset": stored.physical_offset,
        "reconsumeTimes": stored.reconsume_times, "born": stored.born_ms,
        "stored": stored.store_ms, "bornHost": message.born_host,
        "storeHost": message.store_host, "sysFlag": stored.sys_flag, "flag": stored.flag,
        "properties": message.properties, **body,
    }  # fmt: skip


def _body_file(message: Received, number: int) -> str:
    """Write the body where upstream's tool does. Ids come from strangers: no path is made of one
    that is more than letters and digits.
    """
    name = message.id if _HARMLESS.fullmatch(message.id) else message.offset_id
    path = BODIES / (f"{name}_{number}" if number else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(message.body)
    return str(path)
