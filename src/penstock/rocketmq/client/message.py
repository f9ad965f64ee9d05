"""A message that a program sends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.rocketmq.client.errors import BadMessage
from penstock.rocketmq.client.names import checked_destination
from penstock.rocketmq.protocol.messages import properties as names

SHARDING_KEY: Final = "__SHARDINGKEY"
INSTANCE_ID: Final = "INSTANCE_ID"
RESERVED: Final = frozenset(
    (
        names.KEYS, names.TAGS, names.WAIT, names.DELAY, names.RETRY_TOPIC, names.REAL_TOPIC,
        names.REAL_QUEUE, names.TRANSACTION, names.PRODUCER_GROUP, names.ORIGIN_MESSAGE_ID,
        names.UNIQUE_KEY, names.CHECK_TIMES, names.REPLY_TO_CLIENT, names.PUSH_REPLY_TIME,
        names.CLUSTER, *names.TIMERS, names.TIMER_OUT_MS, names.PREPARED_QUEUE_OFFSET,
        "MIN_OFFSET", "MAX_OFFSET", "RECONSUME_TIME", "MAX_RECONSUME_TIMES",
        "CONSUME_START_TIME", "MSG_REGION", "TRACE_ON", "CORRELATION_ID", "TTL", "MSG_TYPE",
        "__transactionId__", INSTANCE_ID, SHARDING_KEY, names.POP_CK,
    )
)  # fmt: skip
_MILLISECONDS: Final = 1000


@dataclass(slots=True)
class Message:
    """A body with its topic and what else is to be known of it.

    ``keys`` find it with mqadmin, several of them separated by blanks. Messages with the same
    ``sharding_key`` go to the same queue, and so stay in order. A message is delivered later with
    one of these: ``delay_level`` (1 to 18: 1s 5s 10s 30s 1m ... 2h), or, by Penstock's brokers and
    those of 5.x, ``delay`` in seconds or ``deliver_at``, a Unix time.
    """

    topic: str
    body: bytes
    tags: str = ""
    keys: str | Iterable[str] = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    sharding_key: str = ""
    delay_level: int = 0
    delay: float | None = None
    deliver_at: float | None = None
    wait_store: bool = True
    """True if the answer waits for what the broker's settings ask, such as a sync."""

    @property
    def is_delayed(self) -> bool:
        """True if it is delivered later than it is stored."""
        return self.delay_level > 0 or self.delay is not None or self.deliver_at is not None

    def check(self, nbytes_max: int) -> None:
        """Raise BadMessage, BadName or TypeError for one that no broker would take."""
        checked_destination(self.topic)
        if not isinstance(self.body, bytes | bytearray | memoryview):
            raise TypeError(f"a body is bytes, not {type(self.body).__name__}")
        if not self.body:
            raise BadMessage("the message body length is zero; brokers keep no empty messages")
        if len(self.body) > nbytes_max:
            raise BadMessage(
                f"the message body size over max value, MAX: {nbytes_max}, it has "
                f"{len(self.body)}: send less, or raise max_message_size here and maxMessageSize "
                "of the broker"
            )
        if sum((self.delay_level > 0, self.delay is not None, self.deliver_at is not None)) > 1:
            raise BadMessage("delay_level, delay and deliver_at exclude one another: give one")
        for name, value in self.properties.items():
            _check_property(name, value)

    def to_properties(self, unique_id: str) -> dict[str, str]:
        """The properties as they are sent."""
        found = {names.UNIQUE_KEY: unique_id, names.WAIT: "true" if self.wait_store else "false"}
        if self.tags:
            found[names.TAGS] = self.tags
        if self.keys:
            found[names.KEYS] = self.keys if isinstance(self.keys, str) else " ".join(self.keys)
        if self.sharding_key:
            found[SHARDING_KEY] = self.sharding_key
        if self.delay_level > 0:
            found[names.DELAY] = str(self.delay_level)
        if self.delay is not None:
            found[names.TIMER_DELAY_MS] = str(round(self.delay * _MILLISECONDS))
        if self.deliver_at is not None:
            found[names.TIMER_DELIVER_MS] = str(round(self.deliver_at * _MILLISECONDS))
        found.update(self.properties)
        return found


def _check_property(name: str, value: str) -> None:
    if name in RESERVED:
        raise BadMessage(f"The Property<{name}> is used by system, input another please")
    if not name or not value or not isinstance(name, str) or not isinstance(value, str):
        raise BadMessage("the name or value of a property can not be null or blank string")
    if not {names.NAME_END, names.VALUE_END}.isdisjoint(name + value):
        raise BadMessage(f"the property {name!r} holds a character that separates properties")
