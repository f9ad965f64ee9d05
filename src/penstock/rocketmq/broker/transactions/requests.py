"""Requests of producers and tools that end transactions, or let one begin again.

See RocketMQ spec 4.7.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.delays import release
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.transactions.book import Outcome
from penstock.rocketmq.broker.transactions.half_messages import QUEUE
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag

if TYPE_CHECKING:
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.broker.transactions.ending import Transactions
    from penstock.rocketmq.remoting import Connection

_UNKNOWN: Final = 0

logger = logging.getLogger("penstock.mqbroker")


@dataclass(slots=True, eq=False)
class TransactionRequests:
    """Answers to requests about transactions."""

    store: MessageStore
    transactions: Transactions

    @answers(RequestCode.END_TRANSACTION)
    async def end_transaction(self, connection: Connection, request: Command) -> Command | None:
        asked = request.int32("commitOrRollback")
        if asked not in (_UNKNOWN, SysFlag.COMMIT, SysFlag.ROLLBACK):
            raise BodyError(f"the field commitOrRollback must be 0, 8 or 12, not {asked}")
        # Java answers nothing to "unknown": the next check asks again.
        if asked == _UNKNOWN:
            logger.info(
                "%s does not know yet how its transaction ends: %s",
                connection.address,
                request.remark or "",
            )
            return None
        await self.transactions.ready.wait()
        half = self._checked_half(request)
        outcome = Outcome.COMMIT if asked == SysFlag.COMMIT else Outcome.ROLLBACK
        await self.transactions.end(half, outcome)
        return request.answer()

    def _checked_half(self, request: Command) -> StoredMessage:
        """The half message that a request names. Raises RefusedError when it is another's."""
        group = request.text("producerGroup")
        queue_offset = request.int64("tranStateTableOffset")
        physical = request.int64("commitLogOffset")
        half = self.store.message(physical)
        if half is None or half.topic != names.HALF_TOPIC:
            problem = "Find prepared transaction message failed"
        elif properties.value_of(half.properties, properties.PRODUCER_GROUP) != group:
            problem = "The producer group wrong"
        elif half.queue_offset != queue_offset:
            problem = "The transaction state table offset wrong"
        else:
            return half
        raise RefusedError(ResponseCode.SYSTEM_ERROR, problem)

    @answers(RequestCode.RESUME_CHECK_HALF_MESSAGE)
    async def resume_check(self, connection: Connection, request: Command) -> Command:
        """A message that was given up becomes a new transaction, checked from the start."""
        message_id = request.text("msgId")
        given_up = self.store.message(OffsetId.parse(message_id).offset)
        if given_up is None or given_up.topic != names.GIVEN_UP_HALF_TOPIC:
            remark = f"the message {message_id} was not given up"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        draft = Draft.of(given_up)
        draft.prepared_offset = 0
        found = properties.parse(draft.properties)
        found.pop(properties.PREPARED_QUEUE_OFFSET, None)
        found[properties.CHECK_TIMES] = "0"
        await self.store.append(release.moved(draft, names.HALF_TOPIC, QUEUE, found))
        return request.answer()
