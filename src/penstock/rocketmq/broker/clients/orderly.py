"""Locks on queues, for consumers that must handle messages in order (RocketMQ spec 2.2, 4.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import answers, json_answer
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.state.queue_locks import QueueLocks
    from penstock.rocketmq.remoting import Connection

QUEUES_MAX: Final = 10_000
"""Queues in one request."""
EXPIRY_SCAN_S: Final = 60.0


class LockRequest(NamedTuple):
    """A client of a group, and the queues it speaks of."""

    group: str
    client: str
    queues: list[MessageQueue]


@dataclass(slots=True, eq=False)
class OrderlyLocks:
    """Answers about locks on queues."""

    locks: QueueLocks
    clock: Clock

    @answers(RequestCode.LOCK_BATCH_MQ)
    def lock_queues(self, connection: Connection, request: Command) -> Command:
        now = self.clock.monotonic_ns()
        held = self.locks.lock(*asked(request.body), now)
        return json_answer(request, {"lockOKMQSet": [queue._asdict() for queue in held]})

    @answers(RequestCode.UNLOCK_BATCH_MQ)
    def unlock_queues(self, connection: Connection, request: Command) -> Command:
        self.locks.unlock(*asked(request.body))
        return request.answer()

    def forget_expired(self) -> None:
        """Drop locks that nobody has renewed; they hold nothing any more anyway."""
        self.locks.forget_expired(self.clock.monotonic_ns())


def asked(body: bytes) -> LockRequest:
    """The content of a request's body. Raises BodyError."""
    value = fastjson.loads(body)
    if not isinstance(value, dict):
        raise BodyError("a request for queues that is not an object")
    queues = value.get("mqSet") or []
    if not isinstance(queues, list) or len(queues) > QUEUES_MAX:
        raise BodyError(f"mqSet is not a list of at most {QUEUES_MAX} queues")
    return LockRequest(
        _text(value, "consumerGroup", names.GROUP_LENGTH_MAX),
        _text(value, "clientId", names.CLIENT_ID_LENGTH_MAX),
        [MessageQueue.from_json(each) for each in queues],
    )


def _text(value: dict[Any, Any], name: str, longest: int) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not 0 < len(text) <= longest:
        raise BodyError(f"{name} must be a text of 1 to {longest} characters")
    return text
