"""A queue as clients name it: by its broker, its topic and its number."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from penstock.rocketmq.protocol.errors import BodyError

NAME_LENGTH_MAX: Final = 255


class MessageQueue(NamedTuple):
    """The fields have the names of their JSON."""

    brokerName: str
    queueId: int
    topic: str

    @classmethod
    def from_json(cls, value: Any) -> MessageQueue:
        """Parse a queue of JSON. Raises BodyError."""
        if isinstance(value, dict):
            broker, topic, queue = value.get("brokerName"), value.get("topic"), value.get("queueId")
            if isinstance(broker, str) and isinstance(topic, str) and type(queue) is int:
                if max(len(broker), len(topic)) > NAME_LENGTH_MAX:
                    raise BodyError("the name of a broker or topic is too long")
                return cls(broker, queue, topic)
        raise BodyError("a queue without brokerName, topic and queueId")


def queue_order(queue: MessageQueue) -> tuple[str, str, int]:
    """The key by which upstream sorts queues."""
    return queue.topic, queue.brokerName, queue.queueId
