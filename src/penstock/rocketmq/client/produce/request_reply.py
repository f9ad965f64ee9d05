"""Messages that are answered: a request goes to a topic, and whoever consumes it sends a reply,
which its broker hands on to the one who asked (RocketMQ spec 2.1).
"""

from __future__ import annotations

import logging
from typing import Final
from uuid import uuid4

from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import BadMessage, NoReply
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.network.jobs import Promise
from penstock.rocketmq.client.network.wire import Wire
from penstock.rocketmq.client.produce.publishing import Publisher, QueueWanted
from penstock.rocketmq.client.produce.sending import SendResult, draft
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.ids import NO_HOST, Host
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage

CORRELATION_ID: Final = "CORRELATION_ID"
TTL: Final = "TTL"
MESSAGE_TYPE: Final = "MSG_TYPE"
REPLY: Final = "reply"


class Requests:
    """Requests that wait for their replies, and the replies to those of others."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._hub = publisher.hub
        self._waiting: dict[str, Promise[Received]] = {}
        self._hub.serves[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = self._replied

    async def request(
        self, message: Message, seconds: float, queue: QueueWanted = None
    ) -> Received:
        """Send a request, and wait for its reply. Raises NoReply after that time."""
        publisher, config = self._publisher, self._hub.config
        message.check(config.max_message_size)
        correlation = str(uuid4())
        ends = self._hub.clock.monotonic_ns() + int(seconds * SECOND)
        made = draft(
            message,
            publisher.ids.next(),
            config,
            **{
                CORRELATION_ID: correlation,
                properties.REPLY_TO_CLIENT: self._hub.client_id,
                TTL: str(round(seconds * SECOND / MILLISECOND)),
            },
        )
        publisher.begin()
        await self._hub.routes.to_send(made.topic)
        await publisher.heartbeats.introduce()  # else no broker could hand the reply on
        # Before the send: a reply may be here before the send's own answer.
        promise = self._waiting[correlation] = Promise[Received]()
        try:
            await publisher.deliver(made, message, queue, seconds)
            left = max(0, ends - self._hub.clock.monotonic_ns()) / SECOND
            late = NoReply(
                f"send request message to <{message.topic}> OK, but wait reply message timeout, "
                f"{seconds:g} s",
                "see that a consumer of the topic runs and replies, or allow more time",
            )
            timer = self._hub.later(left, lambda: promise.fail(late))
            try:
                return await promise
            finally:
                timer.cancel()
        finally:
            del self._waiting[correlation]

    async def reply(self, request: Received, body: bytes) -> SendResult:
        """Answer a request that was consumed. Raises BadMessage for any other message."""
        found = request.properties
        cluster, correlation = found.get(properties.CLUSTER), found.get(CORRELATION_ID)
        client = found.get(properties.REPLY_TO_CLIENT)
        if not cluster or not correlation or not client:
            raise BadMessage("create reply message fail: this message is not a request")
        message = Message(f"{cluster}_REPLY_TOPIC", body)
        made = draft(
            message,
            self._publisher.ids.next(),
            self._hub.config,
            **{
                MESSAGE_TYPE: REPLY,
                CORRELATION_ID: correlation,
                properties.REPLY_TO_CLIENT: client,
                TTL: found.get(TTL, ""),
            },
        )
        made.topic = message.topic  # it belongs to the cluster, and to no namespace
        made.code = RequestCode.SEND_REPLY_MESSAGE_V2
        return (await self._publisher.deliver(made, message))[0]

    def _replied(self, wire: Wire, request: Command) -> Command:
        text = request.optional("properties") or ""
        correlation = properties.value_of(text, CORRELATION_ID) or ""
        promise = self._waiting.get(correlation)
        if promise is None:
            tell(
                logging.WARNING,
                "reply-unmatched",
                f"receive reply message, but not matched any request, CorrelationId: {correlation}",
                address=wire.address,
            )
        else:
            stored = StoredMessage(
                request.text("topic"), request.body, request.int32("queueId"), 0, 0,
                _host(request.optional("bornHost")), _host(request.optional("storeHost")),
                request.int64("bornTimestamp"), request.int64("storeTimestamp", 0), text,
                request.int32("flag", 0), request.int32("sysFlag", 0),
            )  # fmt: skip
            promise.keep(Received(stored, namespace=self._hub.config.namespace))
        # Even to one that nobody waits for: an error would only make the broker log it.
        return request.answer()


def _host(text: str | None) -> Host:
    try:
        return Host.parse((text or "").removeprefix("/"))
    except ValueError:
        return NO_HOST
