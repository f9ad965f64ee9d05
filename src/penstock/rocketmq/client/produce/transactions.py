"""Messages that count only when the sender's own work is done (RocketMQ spec 4.7).

A half message is stored where nobody sees it; the sender does its work, and says whether the
message is to be delivered. A broker that is not told, because the sender crashed or did not know,
asks any producer of the group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import BadMessage, Stopped
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.network.wire import Wire
from penstock.rocketmq.client.produce.publishing import Publisher
from penstock.rocketmq.client.produce.sending import SendResult, SendStatus, draft
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import decode

Execute: TypeAlias = Callable[[Message], Any]
"""The sender's own work; it gives a TransactionState, or what can be awaited for one."""
Check: TypeAlias = Callable[[Received], Any]
"""A function that looks up how that work ended, with a result of the same kind."""
_WORDS: Final = {8: "COMMIT_MESSAGE", 12: "ROLLBACK_MESSAGE", 0: "UNKNOW"}


class TransactionState(IntEnum):
    """Ends of the sender's work; the broker asks later about an ``UNKNOWN`` one."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


class TransactionResult(NamedTuple):
    """The place of the half message, and the end that was told."""

    sent: SendResult
    state: TransactionState


class Transactions:
    """Half messages and their ends, and the answers to brokers that ask for them."""

    def __init__(self, publisher: Publisher, check: Check | None) -> None:
        self._publisher = publisher
        self._hub = publisher.hub
        self._check = check
        self._hub.serves[RequestCode.CHECK_TRANSACTION_STATE] = self._asked

    async def send(
        self, message: Message, execute: Execute, seconds: float | None = None
    ) -> TransactionResult:
        """Send a half message, do ``execute``, and say how it ended.

        When ``execute`` raises, the state is unknown and the exception is raised here.
        """
        if self._check is None:
            raise BadMessage("a producer that sends in transactions is made with on_check=...")
        publisher, config = self._publisher, self._hub.config
        if message.is_delayed:  # Java's clients send it without the delay, too
            message = replace(message, delay_level=0, delay=None, deliver_at=None)
        message.check(config.max_message_size)
        marks = {properties.TRANSACTION: "true", properties.PRODUCER_GROUP: publisher.group}
        made = draft(message, publisher.ids.next(), config, **marks)
        publisher.begin()
        await self._hub.routes.to_send(made.topic)
        await publisher.heartbeats.introduce()  # else nobody could be asked
        (sent,) = await publisher.deliver(made, message, None, seconds)
        # As Java's client: a half that may be lost with its broker is not worth the sender's work.
        if sent.status is not SendStatus.SEND_OK:
            await self._end(message, sent, TransactionState.ROLLBACK)
            return TransactionResult(sent, TransactionState.ROLLBACK)
        try:
            state = TransactionState(await self._hub.call(execute, message))
        except Exception as error:
            await self._end(message, sent, TransactionState.UNKNOWN, repr(error))
            raise
        await self._end(message, sent, state)
        return TransactionResult(sent, state)

    async def _end(
        self, message: Message, sent: SendResult, state: TransactionState, remark: str = ""
    ) -> None:
        address = self._hub.routes.master(sent.queue.brokerName)
        if address is not None:
            self._say(
                address,
                message,
                sent.id,
                sent.queue_offset,
                sent.physical_offset,
                state,
                sent.queue.topic,
                is_check=False,
                remark=remark,
            )

    def _say(
        self, address: str, message: Message | Received, unique_id: str, table_offset: int,
        physical_offset: int, state: TransactionState, topic: str, *, is_check: bool,
        remark: str = "",
    ) -> None:  # fmt: skip
        fields = {
            "producerGroup": self._publisher.group,
            "tranStateTableOffset": str(table_offset),
            "commitLogOffset": str(physical_offset),
            "commitOrRollback": str(int(state)),
            "fromTransactionCheck": "true" if is_check else "false",
            "msgId": unique_id,
            "transactionId": unique_id,
            "topic": topic,
        }
        # One-way, as Java's: if it is lost, the broker asks (RocketMQ spec 4.7).
        self._hub.tell(address, RequestCode.END_TRANSACTION, fields)
        group, tracer = self._publisher.group, self._publisher.tracer
        if tracer is not None:
            word = _WORDS[state]
            tracer.ended(group, message, unique_id, word, address, is_check=is_check)
        tell(
            logging.DEBUG,
            "transaction-ended",
            f"transaction {unique_id}: {_WORDS[state]} {remark}",
            address=address,
            group=group,
        )

    # --- checks ----------------------------------------------------------------------------------

    def _asked(self, wire: Wire, request: Command) -> None:
        stored, _ = decode(request.body)
        table, physical = request.int64("tranStateTableOffset"), request.int64("commitLogOffset")
        message = Received(stored, namespace=self._hub.config.namespace)
        tell(
            logging.INFO,
            "check",
            f"checkTransactionState of {message.id}",
            address=wire.address,
            group=self._publisher.group,
        )
        self._hub.spawn(self._look_up(wire.address, message, table, physical), "check")

    async def _look_up(
        self, address: str, message: Received, table_offset: int, physical_offset: int
    ) -> None:
        # Said where the check is missing or fails, too: the broker asks again (RocketMQ spec 4.7).
        state = TransactionState.UNKNOWN
        try:
            if self._check is not None:
                state = TransactionState(await self._hub.call(self._check, message))
        except Stopped:
            raise
        except Exception as error:
            tell(
                logging.ERROR,
                "check-failed",
                "Broker call checkTransactionState, but checkLocalTransactionState exception",
                trace=error,
                address=address,
                group=self._publisher.group,
            )
        self._say(
            address,
            message,
            message.id,
            table_offset,
            physical_offset,
            state,
            message.stored.topic,
            is_check=True,
        )
