"""Transactions on a node whose clock stands still: begin one, end it, see what became of it."""

from __future__ import annotations

from typing import Any

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.store.draft import Draft, Placed
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from tests.unit.rocketmq.broker.lives import Lives, stored
from tests.unit.rocketmq.broker.peers import FakePeer, request

END_TRANSACTION = 37
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
PEER = FakePeer()


async def life(lives: Lives) -> Services:
    """A new life whose transactions are recovered."""
    services = lives.begin("T")
    services.transactions.start()
    await services.transactions.ready.wait()
    return services


async def begin(
    services: Services,
    body: bytes = b"x",
    queue: int = 0,
    born_ms: int | None = None,
    **more: str,
) -> Placed:
    """Store the half message of a transaction."""
    text = properties.join({"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "U", **more})
    draft = Draft("T", queue, body, text, sys_flag=4,
                  born_ms=services.now_ms if born_ms is None else born_ms)  # fmt: skip
    return await services.store.append(services.transactions.half(draft))


def end_request(half: Placed, how: int, **fields: Any) -> Command:
    """A request to end a transaction."""
    named: dict[str, Any] = {
        "producerGroup": "PG", "tranStateTableOffset": half.queue_offset,
        "commitLogOffset": half.physical_offset, "commitOrRollback": how, "msgId": "U",
        **fields,
    }  # fmt: skip
    return request(END_TRANSACTION, **named)


async def end(services: Services, half: Placed, how: int, **fields: Any) -> Command | None:
    """The answer to the request. Raises RefusedError."""
    asked = end_request(half, how, **fields)
    return await services.answers.later[asked.code](PEER.connection, asked)


def bodies(services: Services, queue: int = 0) -> list[bytes]:
    """What consumers of the topic see."""
    return [message.body for message in stored(services, "T", queue)]


def ops(services: Services) -> list[tuple[bytes, str | None]]:
    """The op messages: the half they are for, and the outcome."""
    return [
        (message.body, properties.value_of(message.properties, "TRAN_OUTCOME"))
        for message in stored(services, names.OP_HALF_TOPIC)
    ]


def settled(services: Services) -> tuple[int | None, int | None]:
    """What is kept of the progress: offsets of the half and the op topic."""
    group = names.TRANSACTION_GROUP
    return (services.offsets.query(names.HALF_TOPIC, group, 0),
            services.offsets.query(names.OP_HALF_TOPIC, group, 0))  # fmt: skip
