"""Messages of RocketMQ by id, key, place and time, found without consuming them."""

from __future__ import annotations

from base64 import b64encode
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from penstock.admin.rocketmq.answers import required, said
from penstock.admin.rocketmq.messages.pulls import (
    ROOM,
    Part,
    Queue,
    backward,
    fitting,
    most_of,
    onward,
    queues_of,
)
from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.v1_api import ApiError, Query
from penstock.rocketmq.client.admin.messages import END_OF_TIME, KeyQuery, at_offset, with_key
from penstock.rocketmq.client.admin.offsets import offset_at
from penstock.rocketmq.client.admin.topology import Broker
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.messages.properties import RETRY_TOPIC

LIMIT: Final = 32
LIMIT_MAX: Final = 64
BODY_MAX: Final = 16 * 1024
"""Bytes of each body in a list; of a single message there are WHOLE_MAX."""
WHOLE_MAX: Final = 1 << 20
_NOT_FOUND: Final = (
    ResponseCode.QUERY_NOT_FOUND,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.TOPIC_NOT_EXIST,
)


class MessageQuery(NamedTuple):
    """The messages of a topic that are looked for; without any of the rest the newest ones."""

    topic: str
    limit: int
    id: str = ""
    key: str = ""
    broker: str = ""
    queue: int | None = None
    offset: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None

    @classmethod
    def parse(cls, raw: bytes) -> MessageQuery:
        """From a query. Raises ApiError 400."""
        query = Query.parse(raw)
        topic = required(said(query, "topic"), "topic")
        texts = [said(query, name) for name in ("id", "key", "broker")]
        numbers = [_number(query, name) for name in ("queue", "offset", "begin", "end")]
        limit = _number(query, "limit")
        limit = LIMIT if limit is None else max(1, min(limit, LIMIT_MAX))
        return cls(topic, limit, *texts, *numbers)  # type: ignore[arg-type]


def _number(query: Query, name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or int(text) > END_OF_TIME:
        raise ApiError(400, f"INVALID_{name.upper()}")
    return int(text)


async def find(servers: Servers, query: MessageQuery) -> dict[str, Any]:
    """The messages, newest first, but for those from a time or place on: these are in order.

    ``next_ms`` is the time at which a look at a range goes on; null when that is all. Raises
    ApiError 404 where nobody has the topic.
    """
    warnings, next_ms = Warnings(), None
    if query.id:
        messages = await by_id(servers, query.topic, query.id, warnings)
    elif query.key:
        messages = await by_key(servers, query.topic, query.key, warnings)
    elif query.offset is not None:
        messages = await _by_place(servers, query, warnings)
    elif query.begin_ms is not None or query.end_ms is not None:
        messages, next_ms = await _by_time(servers, query, warnings)
    else:
        messages = await _newest(servers, query, warnings)
    body_max = WHOLE_MAX if len(messages) == 1 else BODY_MAX
    return {
        "messages": [record(each, body_max) for each in messages],
        "next_ms": next_ms,
        "message": warnings.message,
    }


# --- by id and key -------------------------------------------------------------------------------


async def by_id(
    servers: Servers, topic: str, message_id: str, warnings: Warnings
) -> list[Received]:
    """The messages with an id: that of their broker, or that of their producer."""
    place = _place_of(message_id)
    if place is not None:
        for broker in await servers.brokers():
            # The id says which server to ask; only a broker of this cluster is asked.
            if str(place.host) in broker.addresses.values():
                return await _view(servers, broker, topic, place, warnings)
    return await _indexed(servers, KeyQuery(topic, message_id, is_id=True), warnings)


def _place_of(message_id: str) -> OffsetId | None:
    try:
        return OffsetId.parse(message_id)
    except BodyError:
        return None


async def _view(
    servers: Servers, broker: Broker, topic: str, place: OffsetId, warnings: Warnings
) -> list[Received]:
    async def ask(address: str) -> list[Received]:
        return await at_offset(servers, address, place.offset, topic, broker.name)

    answers = await gathered([str(place.host)], ask, warnings, but=_NOT_FOUND)
    return [each for _, messages in answers for each in messages if each.stored.topic == topic]


def the_one(messages: list[Received]) -> Received:
    """The only message that is meant. Raises ApiError 404 where there is none."""
    if not messages:
        raise ApiError(404, "MESSAGE_NOT_FOUND")
    return messages[0]


async def by_key(servers: Servers, topic: str, key: str, warnings: Warnings) -> list[Received]:
    """The messages with a key, newest first."""
    return await _indexed(servers, KeyQuery(topic, key), warnings)


async def _indexed(servers: Servers, query: KeyQuery, warnings: Warnings) -> list[Received]:
    """Messages with a key or an id, of the brokers' indexes."""
    brokers = [each for each in (await servers.route(query.topic)).brokers if each.any_address()]
    room = ROOM // max(len(brokers), 1)

    async def ask(broker: Broker) -> list[Received]:
        address = broker.any_address()
        found = await with_key(servers, address, query, LIMIT_MAX, broker.name, most_of(room))
        messages, is_all = fitting(found, room)
        if not is_all:
            told = f"broker {broker.name}: only the first {len(messages)} have room here"
            warnings.add([told])
        return messages

    told = await gathered(brokers, ask, warnings, but=_NOT_FOUND)
    return _newest_first([each for _, found in told for each in found])


def _newest_first(messages: list[Received]) -> list[Received]:
    return sorted(
        messages, key=lambda each: (each.stored.store_ms, each.queue_offset), reverse=True
    )


# --- by place and time ---------------------------------------------------------------------------


async def _queues(servers: Servers, query: MessageQuery) -> list[Queue]:
    """The topic's queues that were asked for."""
    return [
        each
        for each in queues_of(await servers.route(query.topic), query.topic)
        if query.broker in ("", each.broker.name) and query.queue in (None, each.number)
    ]


async def _parts(
    queues: list[Queue], look: Callable[[Queue, int], Awaitable[Part]], warnings: Warnings
) -> list[Part]:
    """The messages of each queue; all queues share the room for bodies."""
    room = ROOM // max(len(queues), 1)

    async def ask(queue: Queue) -> Part:
        return await look(queue, room)

    return [part for _, part in await gathered(queues, ask, warnings) if part.messages]


async def _by_place(servers: Servers, query: MessageQuery, warnings: Warnings) -> list[Received]:
    async def look(queue: Queue, room: int) -> Part:
        return await onward(servers, queue, query.offset or 0, query.limit, room)

    parts = await _parts(await _queues(servers, query), look, warnings)
    # Beyond the end of a part there may be more in its queue: what others have there waits.
    last = min(
        (each.messages[-1].queue_offset for each in parts if not each.is_all), default=END_OF_TIME
    )
    messages = [each for part in parts for each in part.messages if each.queue_offset <= last]
    return sorted(messages, key=lambda each: (each.queue_offset, each.queue))[: query.limit]


async def _newest(servers: Servers, query: MessageQuery, warnings: Warnings) -> list[Received]:
    async def look(queue: Queue, room: int) -> Part:
        return await backward(servers, queue, query.limit, room)

    parts = await _parts(await _queues(servers, query), look, warnings)
    oldest = max((each.messages[0].stored.store_ms for each in parts if not each.is_all), default=0)
    found = [each for part in parts for each in part.messages if each.stored.store_ms >= oldest]
    return _newest_first(found)[: query.limit]


async def _by_time(
    servers: Servers, query: MessageQuery, warnings: Warnings
) -> tuple[list[Received], int | None]:
    """Messages that were stored within a time, in that order, and where to go on."""
    begin = query.begin_ms or 0
    end = query.end_ms if query.end_ms is not None else END_OF_TIME

    async def look(queue: Queue, room: int) -> Part:
        start = await offset_at(servers, queue.address, queue.place, begin)
        # One more than is shown tells whether there is more.
        return await onward(servers, queue, start, query.limit + 1, room)

    parts = await _parts(await _queues(servers, query), look, warnings)
    ends = [each.messages[-1].stored.store_ms for each in parts if not each.is_all]
    last = min([each for each in ends if each <= end], default=None)
    until = end if last is None else last
    messages = [
        each for part in parts for each in part.messages if begin <= each.stored.store_ms <= until
    ]
    messages.sort(key=lambda each: (each.stored.store_ms, each.queue_offset))
    if last is None and len(messages) <= query.limit:
        return messages, None
    shown = messages[: query.limit]
    # Of one millisecond there may be more than are shown: then it goes on behind it.
    return shown, max(shown[-1].stored.store_ms if shown else begin, begin + 1)


def record(message: Received, body_max: int) -> dict[str, Any]:
    """The message as the API shows it: the start of its ``body``; ``body_base64`` if no text."""
    stored = message.stored
    return {
        "id": message.id,
        "offset_id": message.offset_id,
        "topic": stored.topic,
        "origin": message.properties.get(RETRY_TOPIC, stored.topic),
        "tags": message.tags,
        "keys": message.keys,
        "broker": message.broker,
        "queue": stored.queue,
        "offset": stored.queue_offset,
        "born_ms": stored.born_ms,
        "stored_ms": stored.store_ms,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "reconsume_times": stored.reconsume_times,
        "flag": stored.flag,
        "sys_flag": stored.sys_flag,
        "properties": message.properties,
        "size": len(message.body),
        **_body(message.body, body_max),
    }


def _body(body: bytes, most: int) -> dict[str, str]:
    shown = body[:most]
    try:
        # A character that the end cuts in two is left out; within, what is not UTF-8 is not text.
        text = getincrementaldecoder("utf-8")().decode(shown, final=len(shown) == len(body))
    except UnicodeDecodeError:
        return {"body_base64": b64encode(shown).decode()}
    return {"body": text}
