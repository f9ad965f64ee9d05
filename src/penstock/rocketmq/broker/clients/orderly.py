"""Locks on queues, for consumers that must handle messages in order (RocketMQ spec 2.2, 4.8)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import answers, json_answer
from penstock.rocketmq.broker.periodic import Periodic
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue

if TYPE_CHECKING:
    from penstock.rocketmq.broker.tables import Tables
    from penstock.rocketmq.remoting import Connection

QUEUES_MAX: Final = 10_000
"""Queues in one request."""
EXPIRY_SCAN_S: Final = 60.0


class Asked(NamedTuple):
    """A client of a group, and the queues it speaks of."""

    group: str
    client: str
    queues: list[MessageQueue]


@answers(RequestCode.LOCK_BATCH_MQ)
def lock_queues(tables: Tables, connection: Connection, request: Command) -> Command:
    now = tables.clock.monotonic_ns()
    held = tables.locks.lock(*asked(request.body), now)
    return json_answer(request, {"lockOKMQSet": [queue._asdict() for queue in held]})


@answers(RequestCode.UNLOCK_BATCH_MQ)
def unlock_queues(tables: Tables, connection: Connection, request: Command) -> Command:
    tables.locks.unlock(*asked(request.body))
    return request.answer()


def asked(body: bytes) -> Asked:
    """The content of a request's body. Raises BodyError."""
    value = fastjson.loads(body)
    if not isinstance(value, dict):
        raise BodyError("a request for queues that is no object")
    queues = value.get("mqSet") or []
    if not isinstance(queues, list) or len(queues) > QUEUES_MAX:
        raise BodyError(f"mqSet is no list of at most {QUEUES_MAX} queues")
    return Asked(
        _text(value, "consumerGroup", names.GROUP_LENGTH_MAX),
        _text(value, "clientId", names.CLIENT_ID_LENGTH_MAX),
        [MessageQueue.from_json(each) for each in queues],
    )


def _text(value: dict[Any, Any], name: str, longest: int) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not 0 < len(text) <= longest:
        raise BodyError(f"{name} must be a text of 1 to {longest} characters")
    return text


def lock_expiry(tables: Tables) -> Periodic:
    """The service that drops locks nobody has renewed; they hold nothing any more anyway."""
    return Periodic("expiry of queue locks", EXPIRY_SCAN_S, partial(forget_expired, tables))


def forget_expired(tables: Tables) -> None:
    """Drop the locks of clients that have gone silent."""
    tables.locks.forget_expired(tables.clock.monotonic_ns())
