"""POP: messages of any queue that are hidden for a time, and come again unless they are
acknowledged (RocketMQ spec 2.7). It needs brokers of 5.x, or Penstock's.

Nothing is shared among members: whoever asks gets messages that nobody else has at present.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Final

from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.consume.filters import Filter, Subscription
from penstock.rocketmq.client.consume.heartbeats import Heartbeats
from penstock.rocketmq.client.consume.receipts import Handout, Receipt, batch_of_acks
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import (
    BadAnswer,
    ClientError,
    NoRoute,
    NotSupported,
    Stopped,
    no_broker,
    refusal,
)
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.names import checked_group, checked_topic, wrap
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.protocol import fastjson, membership
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all

# The brokers' limit (RocketMQ spec 2.7).
MESSAGES_MAX: Final = 32
ANY_QUEUE: Final = "-1"
_NOTHING: Final = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.POLLING_FULL,
    ResponseCode.POLLING_TIMEOUT,
)


class Popped(Received):
    """A message that is hidden from others; ``receipt`` proves that it was handed out."""

    __slots__ = ("receipt",)

    def __init__(
        self, stored: StoredMessage, broker: str, namespace: str, receipt: Receipt
    ) -> None:
        super().__init__(stored, broker, namespace)
        self.receipt = receipt


class Popper:
    """A popper of one topic's messages for a group."""

    def __init__(
        self, group: str, topic: str, wanted: Filter, hub: Hub, *, is_orderly: bool = False
    ) -> None:
        namespace = hub.config.namespace
        self.group = wrap(namespace, checked_group(group))
        self.topic = wrap(namespace, checked_topic(topic))
        self.hub = hub
        self.heartbeats = Heartbeats(hub, self._describe, self.group)
        self._subscription = Subscription(self.topic, wanted, hub.now_ms)
        self._is_orderly = is_orderly
        self._attempts = 0
        self._unanswered: dict[str, str] = {}
        """The attempt in order whose answer never came, by address."""
        self._turn = 0
        self._begun = False

    def _describe(self) -> dict[str, Any]:
        subscribed, from_where = [self._subscription.as_json()], self.hub.config.consume_from_where
        return membership.consuming(self.group, subscribed, membership.POPS, from_where=from_where)

    async def begin(self) -> None:
        """Join the group; doing so again changes nothing. Raises ClientError."""
        if not self._begun:
            self.hub.begin()
            await self.hub.routes.of(self.topic)
            await self.heartbeats.beat()
            self.hub.spawn(self.heartbeats.watch(), "heartbeats")
            self._begun = True

    async def receive(self, most: int, invisible_s: float, wait_s: float) -> list[Popped]:
        """Receive up to ``most`` messages, from the brokers in turn; none after ``wait_s``.

        Raises ClientError of a broker that failed if no other one has any.
        """
        await self.begin()
        route = await self.hub.routes.of(self.topic)
        brokers = sorted({queue.brokerName for queue in route.readable})
        if not brokers:
            raise NoRoute(self.topic, "no broker lets it be read")
        failures: list[ClientError] = []
        for ahead in range(len(brokers)):
            broker = brokers[(self._turn + ahead) % len(brokers)]
            # Only the last one is waited at: the others may have something meanwhile.
            wait = wait_s if ahead == len(brokers) - 1 else 0.0
            try:
                found = await self._pop(broker, most, invisible_s, wait)
            except Stopped:
                raise  # the client is closed, and the other brokers would raise the same
            except ClientError as error:
                failures.append(self._failed(error))
                continue
            if found:
                self._turn += ahead + 1
                return found
        self._turn += 1
        if failures:
            raise failures[0]
        return []

    def _failed(self, error: ClientError) -> ClientError:
        """Note that a broker gives nothing: the others are asked all the same."""
        tell(logging.WARNING, "pull-failed", str(error), group=self.group, topic=self.topic)
        self.hub.routes.doubt(self.topic)
        return error

    async def _pop(self, broker: str, most: int, invisible_s: float, wait_s: float) -> list[Popped]:
        address = self._address(broker)
        wanted = self._subscription.filter
        is_last = self.hub.config.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
        fields = {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": ANY_QUEUE,
            "maxMsgNums": str(most),
            "invisibleTime": _ms(invisible_s),
            "pollTime": _ms(wait_s),
            "bornTime": str(self.hub.now_ms),
            "initMode": "1" if is_last else "0",
            "expType": wanted.kind,
            "exp": wanted.text,
            "order": "false",
        }
        if self._is_orderly:
            answer = await self._ask_in_order(address, fields, wait_s)
        else:
            answer = await self._ask(address, fields, wait_s)
        if answer.code in _NOTHING:
            return []
        if answer.code != ResponseCode.SUCCESS:
            subject = f"group {self.group}, topic {self.topic}"
            raise refusal(address, answer.code, answer.remark, subject)
        found = read_popped(address, answer, broker, self.hub.config.namespace)
        chosen = wanted.chosen(list(found))
        others = [message for message in found if message not in chosen]
        if others:  # the broker compares hashes of tags only
            self.hub.spawn(self.ack(*others), "acknowledge")
        return [message for message in found if message in chosen]

    async def _ask(self, address: str, fields: dict[str, str], wait_s: float) -> Command:
        seconds = wait_s + self.hub.config.request_timeout
        return await self.hub.ask(address, RequestCode.POP_MESSAGE, fields, seconds=seconds)

    async def _ask_in_order(self, address: str, fields: dict[str, str], wait_s: float) -> Command:
        """Ask as an attempt of a name, by which a pop whose answer was lost has its batch again:
        any other would find the queue blocked by it.
        """
        attempt = self._unanswered.pop(address, None)
        if attempt is None:
            self._attempts += 1
            attempt = f"{self.hub.client_id}#{self._attempts}"
        try:
            return await self._ask(
                address, fields | {"order": "true", "attemptId": attempt}, wait_s
            )
        except BaseException:  # cancelled, perhaps
            self._unanswered[address] = attempt
            raise

    async def ack(self, *messages: Popped) -> None:
        """Acknowledge messages; several of one broker with one request.

        Raises the first ClientError when all brokers were asked.
        """
        by_broker: dict[str, list[Popped]] = {}
        for message in messages:
            by_broker.setdefault(message.broker, []).append(message)
        failures: list[ClientError] = []
        for broker, found in by_broker.items():
            try:
                await self._ack_at(self._address(broker), broker, found)
            except ClientError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def _ack_at(self, address: str, broker: str, messages: list[Popped]) -> None:
        if len(messages) > 1:
            receipts = [message.receipt for message in messages]
            body = fastjson.dumps(batch_of_acks(broker, self.group, self.topic, receipts))
            code, subject = RequestCode.BATCH_ACK_MESSAGE, f"group {self.group}"
            with contextlib.suppress(NotSupported):  # brokers before 5.2
                await self.hub.demand(address, code, body=body, subject=subject)
                return
        for message in messages:
            code, fields = RequestCode.ACK_MESSAGE, self._fields(message)
            await self.hub.demand(address, code, fields, subject=f"{message}")

    async def change_invisible(self, message: Popped, seconds: float) -> None:
        """Hide the message for ``seconds``; 0 gives it to anybody at once. Raises ClientError."""
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        fields = self._fields(message) | {"invisibleTime": _ms(seconds)}
        address = self._address(message.broker)
        answer = await self.hub.demand(address, code, fields, subject=f"{message}")
        try:
            message.receipt = message.receipt.renewed(answer)
        except BodyError as error:
            raise BadAnswer(f"{address}: {error}") from None

    def _fields(self, message: Popped) -> dict[str, str]:
        receipt = message.receipt
        return {
            "consumerGroup": self.group,
            "topic": receipt.topic(self.group, self.topic),
            "queueId": receipt.queue,
            "extraInfo": str(receipt),
            "offset": receipt.offset,
        }

    def _address(self, broker: str) -> str:
        address = self.hub.routes.master(broker)
        if address is None:
            raise no_broker(broker)
        return address

    async def leave(self) -> None:
        """Leave the group; what is hidden comes again when its time is over."""
        await self.heartbeats.leave(consumerGroup=self.group)


def read_popped(address: str, answer: Command, broker: str, namespace: str) -> list[Popped]:
    """The messages of an answer with their receipts. Raises BadAnswer."""
    try:
        return _popped(answer, broker, namespace)
    except (BodyError, ValueError) as error:
        raise BadAnswer(f"{address}: {error} in the answer to a pop") from None


def _popped(answer: Command, broker: str, namespace: str) -> list[Popped]:
    handout = Handout.of(answer)
    found = []
    for stored in decode_all(answer.body):
        message = Popped(stored, broker, namespace, handout.receipt(stored, broker))
        message.reconsume_times = handout.count(stored) or message.reconsume_times
        found.append(message)
    return found


def _ms(seconds: float) -> str:
    return str(int(seconds * SECOND) // MILLISECOND)
