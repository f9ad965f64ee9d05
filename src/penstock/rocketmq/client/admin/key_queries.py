"""Queries for messages by key or by their producer's id, as brokers' indexes answer them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.rocketmq.client.consume.received import Received, each_received
from penstock.rocketmq.client.produce.compression import BODY_BYTES_MAX

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
            "topic": self.topic, "key": self.key, "maxNum": most, "beginTimestamp": 0,
            "endTimestamp": END_OF_TIME,
        }  # fmt: skip
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
