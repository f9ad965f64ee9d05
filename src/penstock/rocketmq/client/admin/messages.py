"""Messages at a broker: found by key, by their producer's id and by their place, and consumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from penstock.rocketmq.client.admin.client import AdminClient, as_object
from penstock.rocketmq.client.consume.received import Received, all_received, each_received
from penstock.rocketmq.client.message import RESERVED, Message
from penstock.rocketmq.client.produce.compression import BODY_BYTES_MAX
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.messages.message import StoredMessage
from penstock.rocketmq.protocol.messages.properties import TAGS, value_of

END_OF_TIME: Final = (1 << 63) - 1
_BY_ID: Final = "_UNIQUE_KEY_QUERY"


class KeyQuery(NamedTuple):
    """The messages of a topic with a key or, with ``is_id``, with this id of their producer."""

    topic: str
    key: str
    is_id: bool = False

    def fields(self, most: int) -> dict[str, object]:
        """The fields of QUERY_MESSAGE that ask for the newest ones, ``most`` at most."""
        fields: dict[str, object] = {
            "topic": self.topic,
            "key": self.key,
            "maxNum": most,
            "beginTimestamp": 0,
            "endTimestamp": END_OF_TIME,
        }
        return fields | ({_BY_ID: "true"} if self.is_id else {})

    def found(self, body: bytes, broker: str, most: int = BODY_BYTES_MAX) -> Iterator[Received]:
        """The messages of an answer that are meant, with bodies of up to ``most`` bytes unpacked.
        Raises BadAnswer.

        Brokers look for the hash of a key, and another key may have the same.
        """
        return filter(self._is_meant, each_received(body, broker, most=most))

    def _is_meant(self, message: Received) -> bool:
        if message.stored.topic != self.topic:
            return False
        return message.id == self.key if self.is_id else self.key in message.keys


async def with_key(
    client: AdminClient,
    address: str,
    query: KeyQuery,
    count: int,
    broker: str = "",
    most: int = BODY_BYTES_MAX,
) -> Iterator[Received]:
    """The newest ``count`` messages of a broker's index at most; ``most`` is for each body, as
    unpacked, in bytes. Raises Refused where it has none.
    """
    code, fields = RequestCode.QUERY_MESSAGE, query.fields(count)
    answer = await client.ask(address, code, fields, seconds=client.long_timeout_s)
    return query.found(answer.body, broker, most)


async def at_offset(
    client: AdminClient, address: str, offset: int, topic: str = "", broker: str = ""
) -> list[Received]:
    """The message that begins at a physical offset of a broker. Raises Refused where none does."""
    fields = {"offset": offset} | ({"topic": topic} if topic else {})
    answer = await client.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, fields)
    return all_received(answer.body, broker)


async def consume_directly(
    client: AdminClient,
    address: str,
    group: str,
    member: str,
    message_id: str,
    **place: str,
) -> dict[str, Any]:
    """Have one member of a group handle a message now: its own account of that.

    ``message_id`` is the broker's; ``place`` may have the ``brokerName`` and the ``topic``. Raises
    Refused where the member is not online.
    """
    fields = {"consumerGroup": group, "clientId": member, "msgId": message_id, **place}
    code = RequestCode.CONSUME_MESSAGE_DIRECTLY
    return as_object(await client.ask(address, code, fields, seconds=client.long_timeout_s))


def again(message: Received) -> Message:
    """A new message with the body, keys, tags and user properties of one that was stored."""
    own = {name: text for name, text in message.properties.items() if name not in RESERVED}
    stored = message.stored
    return Message(stored.topic, message.body, message.tags, message.keys, own, stored.flag)


def is_wanted(message: StoredMessage, found: dict[str, Any]) -> bool:
    """False where none of a group's tags is the message's; ``found`` are its consumers."""
    subscription = (found.get("subscriptionTable") or {}).get(message.topic)
    tags = set(subscription.get("tagsSet") or ()) if subscription else set()
    return not tags or bool(tags & {"*", value_of(message.properties, TAGS)})
