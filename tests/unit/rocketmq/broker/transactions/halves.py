"""Transactions on a node whose clock stands still: begin one, end it, see what became of it."""

from __future__ import annotations

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.draft import Draft, Placed
from penstock.rocketmq.broker.node import Node
from penstock.rocketmq.broker.transactions import ending
from penstock.rocketmq.protocol import properties
from penstock.rocketmq.protocol.command import Command
from tests.unit.rocketmq.broker.lives import Lives, stored
from tests.unit.rocketmq.broker.peers import FakePeer, request

END_TRANSACTION = 37
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
PEER = FakePeer()


async def life(lives: Lives) -> Node:
    """A new life whose transactions are recovered."""
    node = lives.begin("T")
    node.transactions.start()
    await node.transactions.ready.wait()
    return node


async def begin(
    node: Node, body: bytes = b"x", queue: int = 0, born_ms: int | None = None, **more: str
) -> Placed:
    """Store the half message of a transaction."""
    text = properties.join({"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "U", **more})
    draft = Draft("T", queue, body, text, sys_flag=4,
                  born_ms=node.now_ms if born_ms is None else born_ms)  # fmt: skip
    return await node.store.append(node.transactions.half(draft))


def end_request(half: Placed, how: int, **fields: object) -> Command:
    """A request to end a transaction."""
    named: dict[str, object] = {
        "producerGroup": "PG", "tranStateTableOffset": half.queue_offset,
        "commitLogOffset": half.physical_offset, "commitOrRollback": how, "msgId": "U",
        **fields,
    }  # fmt: skip
    return request(END_TRANSACTION, **named)


async def end(node: Node, half: Placed, how: int, **fields: object) -> Command | None:
    """The answer to the request. Raises RefusedError."""
    return await ending.end_transaction(node, PEER.connection, end_request(half, how, **fields))


def bodies(node: Node, queue: int = 0) -> list[bytes]:
    """What consumers of the topic see."""
    return [message.body for message in stored(node, "T", queue)]


def ops(node: Node) -> list[tuple[bytes, str | None]]:
    """The op messages: the half they are for, and the outcome."""
    return [
        (message.body, properties.value_of(message.properties, "TRAN_OUTCOME"))
        for message in stored(node, names.OP_HALF_TOPIC)
    ]


def settled(node: Node) -> tuple[int | None, int | None]:
    """What is kept of the progress: offsets of the half and the op topic."""
    group = names.TRANSACTION_GROUP
    return (node.offsets.query(names.HALF_TOPIC, group, 0),
            node.offsets.query(names.OP_HALF_TOPIC, group, 0))  # fmt: skip
