"""POP: messages of any queue that are hidden for a time, and come again unless they are
acknowledged (RocketMQ spec 2.7). It needs brokers of 5.x, or Penstock's.

Nothing is shared among members: whoever asks gets messages that nobody else has at present.
"""

from __future__ import annotations

from reprlib import repr as shortened
from typing import Any, Final

from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.consume.filters import Filter, Subscription
from penstock.rocketmq.client.consume.heartbeats import Heartbeats
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import BadAnswer, NoRoute, NotConnected, refusal
from penstock.rocketmq.client.names import RETRY, checked_group, checked_topic, wrap
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all

MESSAGES_MAX: Final = 32
ANY_QUEUE: Final = "-1"
_POP_CK: Final = "POP_CK"
_NOTHING: Final = (
    ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.POLLING_FULL,
    ResponseCode.POLLING_TIMEOUT,
)  # fmt: skip
_NORMAL, _RETRY_V1, _RETRY_V2 = "0", "1", "2"
_WORDS: Final = 7
"""Of a receipt without the message's own offset."""


class Popped(Received):
    """A message that is hidden from others; ``receipt`` proves that it was handed out."""

    __slots__ = ("receipt",)

    def __init__(self, stored: StoredMessage, broker: str, namespace: str, receipt: str) -> None:
        super().__init__(stored, broker, namespace)
        self.receipt = receipt

    @property
    def retry_flag(self) -> str:
        """``0`` for a message of the topic itself; ``1`` or ``2`` for one of a retry topic."""
        return self.receipt.split(" ")[4]


class Popper:
    """Pops messages of one topic for a group."""

    def __init__(self, group: str, topic: str, wanted: Filter, hub: Hub) -> None:
        namespace = hub.config.namespace
        self.group = wrap(namespace, checked_group(group))
        self.topic = wrap(namespace, checked_topic(topic))
        self.hub = hub
        self.heartbeats = Heartbeats(hub, self._describe, self.group)
        self._subscription = Subscription(self.topic, wanted, hub.now_ms)
        self._turn = 0
        self._begun = False

    def _describe(self) -> dict[str, Any]:
        config = self.hub.config
        consumer = {
            "consumeFromWhere": config.consume_from_where, "consumeType": "CONSUME_POP",
            "groupName": self.group, "messageModel": "CLUSTERING",
            "subscriptionDataSet": [self._subscription.as_json()], "unitMode": False,
        }  # fmt: skip
        return {"consumerDataSet": [consumer], "producerDataSet": []}

    async def begin(self) -> None:
        """Join the group; doing so again changes nothing. Raises ClientError."""
        if not self._begun:
            self.hub.begin()
            await self.hub.routes.of(self.topic)
            await self.heartbeats.beat()
            self.hub.spawn(self.heartbeats.watch(), "heartbeats")
            self._begun = True

    async def receive(self, most: int, invisible_s: float, wait_s: float) -> list[Popped]:
        """At most ``most`` messages, from the brokers in turn; none after ``wait_s`` without one.

        Raises ClientError.
        """
        await self.begin()
        route = await self.hub.routes.of(self.topic)
        brokers = sorted({queue.brokerName for queue in route.readable})
        if not brokers:
            raise NoRoute(self.topic, "no broker lets it be read")
        for ahead in range(len(brokers)):
            broker = brokers[(self._turn + ahead) % len(brokers)]
            # Only the last one is waited at: the others may have something meanwhile.
            wait = wait_s if ahead == len(brokers) - 1 else 0.0
            if found := await self._pop(broker, most, invisible_s, wait):
                self._turn += ahead + 1
                return found
        self._turn += 1
        return []

    async def _pop(self, broker: str, most: int, invisible_s: float, wait_s: float) -> list[Popped]:
        address = self._address(broker)
        config, wanted = self.hub.config, self._subscription.filter
        is_last = config.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
        fields = {
            "consumerGroup": self.group, "topic": self.topic, "queueId": ANY_QUEUE,
            "maxMsgNums": str(most), "invisibleTime": _ms(invisible_s), "pollTime": _ms(wait_s),
            "bornTime": str(self.hub.now_ms), "initMode": "1" if is_last else "0",
            "expType": wanted.kind, "exp": wanted.text, "order": "false",
        }  # fmt: skip
        seconds = wait_s + config.request_timeout
        answer = await self.hub.ask(address, RequestCode.POP_MESSAGE, fields, seconds=seconds)
        if answer.code in _NOTHING:
            return []
        if answer.code != ResponseCode.SUCCESS:
            subject = f"group {self.group}, topic {self.topic}"
            raise refusal(address, answer.code, answer.remark, subject)
        found = read_popped(address, answer, broker, self.hub.config.namespace)
        chosen = wanted.chosen(list(found))
        for message in found:
            if message not in chosen:  # the broker compares hashes of tags only
                self.hub.spawn(self.ack(message), "acknowledge")
        return [message for message in found if message in chosen]

    async def ack(self, message: Popped) -> None:
        """It is done. Raises ClientError."""
        code = RequestCode.ACK_MESSAGE
        address = self._address(message.broker)
        await self.hub.demand(address, code, self._fields(message), subject=f"{message}")

    async def change_invisible(self, message: Popped, seconds: float) -> None:
        """Hide it for so long from now on: 0 gives it to anybody at once. Raises ClientError."""
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        fields = self._fields(message) | {"invisibleTime": _ms(seconds)}
        address = self._address(message.broker)
        answer = await self.hub.demand(address, code, fields, subject=f"{message}")
        words = message.receipt.split(" ")
        try:
            words[1:4] = [
                str(answer.int64("popTime")), str(answer.int64("invisibleTime")),
                str(answer.int32("reviveQid")),
            ]  # fmt: skip
        except BodyError as error:
            raise BadAnswer(f"{address}: {error}") from None
        message.receipt = " ".join(words)

    def _fields(self, message: Popped) -> dict[str, str]:
        words = message.receipt.split(" ")
        topic = self.topic
        if message.retry_flag == _RETRY_V1:
            topic = f"{RETRY}{self.group}_{self.topic}"
        elif message.retry_flag == _RETRY_V2:
            topic = f"{RETRY}{self.group}+{self.topic}"
        return {
            "consumerGroup": self.group, "topic": topic, "queueId": words[6],
            "extraInfo": message.receipt, "offset": words[7],
        }  # fmt: skip

    def _address(self, broker: str) -> str:
        address = self.hub.routes.master(broker)
        if address is None:
            raise NotConnected(broker, f"The broker[{broker}] not exist")
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
    times = f"{answer.int64('popTime')} {answer.int64('invisibleTime')}"
    revive, starts = answer.int32("reviveQid"), _starts(answer.optional("startOffsetInfo") or "")
    found = []
    for stored in decode_all(answer.body):
        # A message that was popped before brings its receipt; others get theirs here, as in Java.
        receipt = properties.value_of(stored.properties, _POP_CK)
        if receipt is None:
            flag = _RETRY_V1 if stored.topic.startswith(RETRY) else _NORMAL
            place = flag, str(stored.queue)
            start = starts.get(place, str(stored.queue_offset))
            receipt = f"{start} {times} {revive} {flag} {broker} {stored.queue}"
        words = receipt.split(" ")
        if len(words) < _WORDS:
            raise BodyError(f"no receipt of a popped message: {shortened(receipt)}")
        words = [*words[: _WORDS + 1], str(stored.queue_offset)][: _WORDS + 1]
        found.append(Popped(stored, broker, namespace, " ".join(words)))
    return found


def _starts(text: str) -> dict[tuple[str, str], str]:
    """The first offsets that were popped, by retry flag and queue."""
    found = {}
    for each in filter(None, text.split(";")):
        flag, queue, offset = each.split(" ")[:3]
        found[flag, queue] = offset
    return found


def _ms(seconds: float) -> str:
    return str(int(seconds * SECOND) // MILLISECOND)
