"""Sending, without I/O: both producers are made of this.

A message goes to a queue of a broker. If that fails for a reason that another broker may not have,
it goes to another one, as often as the options allow and never past ``send_msg_timeout``.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Collection, Sequence
from reprlib import repr as shortened
from typing import Any, Final, TypeAlias

from penstock.core.log_limit import LogLimit
from penstock.core.units import SECOND
from penstock.rocketmq.client.consume.heartbeats import Heartbeats
from penstock.rocketmq.client.errors import (
    BadMessage,
    BrokerError,
    ClientError,
    NoPermission,
    NotConnected,
    SendFailed,
    Stopped,
    TimedOut,
    no_broker,
)
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.identity import UniqueIds
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.names import checked_group, checked_topic, unwrap, wrap
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.network.jobs import Job, Promise
from penstock.rocketmq.client.produce.faults import Faults, QueueChoice
from penstock.rocketmq.client.produce.sending import (
    Draft,
    SendResult,
    SendStatus,
    draft,
    drafts_of,
    results,
)
from penstock.rocketmq.client.produce.trace import GROUP, Tracer
from penstock.rocketmq.protocol import membership
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.ids import java_hash
from penstock.rocketmq.protocol.message_queue import MessageQueue

QueueWanted: TypeAlias = MessageQueue | Callable[[Sequence[MessageQueue]], MessageQueue] | None
"""A queue, what chooses among a topic's queues, or None for the next one."""

RETRIED: Final = frozenset(
    (
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        # RocketMQ spec 2.8: NO_BUYER_ID, NOT_IN_CURRENT_UNIT and GO_AWAY.
        204,
        205,
        1500,
    )
)
"""Refusals that another broker may not have: those of Java's 5.x, which counts a busy one too.

A broker that has denied permission is not asked again by the same send: its rules stay as they are.
Java's clients ask it again, as often as the options allow.
"""


class Publisher:
    """Everything about a producer but its sockets."""

    def __init__(self, group: str, hub: Hub, *, traces: bool = True) -> None:
        """Check the group's name. Raises BadName."""
        config = hub.config
        self.group = wrap(config.namespace, checked_group(group))
        self.hub = hub
        self.ids = UniqueIds(hub.clock, hub.client_id.partition("@")[0])
        self.heartbeats = Heartbeats(hub, self._describe, self.group)
        self.pending = 0
        """Messages of ``send_soon`` that are under way."""
        self._faults = Faults(hub.clock) if config.send_latency_fault_enable else None
        self._choice = QueueChoice(self._faults, hub.chance)
        self.tracer: Tracer | None = None
        """None unless messages are traced."""
        if traces and config.enable_msg_trace:
            self.tracer = tracer(hub)
        self._pending_bytes = 0
        self._log_limit = LogLimit()
        self._waiting: list[Promise[None]] = []
        self._begun = False

    def _describe(self) -> dict[str, Any]:
        return membership.producing(self.group)

    def begin(self) -> None:
        """Start what runs in the background; doing so again changes nothing."""
        if not self._begun:
            self._begun = True
            self.hub.begin()
            self.hub.spawn(self.heartbeats.watch(), "heartbeats")

    # --- sending ---------------------------------------------------------------------------------

    async def send(
        self, message: Message, queue: QueueWanted = None, seconds: float | None = None
    ) -> SendResult:
        """Send one and wait until a broker has it. Raises ClientError."""
        return (await self.deliver(self._draft(message), message, queue, seconds))[0]

    async def send_batch(
        self,
        messages: Sequence[Message],
        queue: QueueWanted = None,
        seconds: float | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic together, in several batches where they are too long for one.

        Raises ClientError of the first batch that failed: those before it were stored.
        """
        nbytes = self.hub.config.max_message_size
        for message in messages:
            message.check(nbytes)
        listed = [(message, self.ids.next()) for message in messages]
        found: list[SendResult] = []
        for part in drafts_of(listed, self.hub.config):
            found += await self.deliver(part, messages[0], queue, seconds)
        return found

    async def send_one_way(self, message: Message, queue: QueueWanted = None) -> str:
        """Send one without asking for an answer: nobody knows whether it was stored.

        The address that it goes to: somebody waits for it if it takes less than is sent. Raises
        ClientError.
        """
        if self.hub.is_closed:
            raise Stopped
        self.begin()  # whoever sends nothing else needs routes that follow its brokers, too
        made = self._draft(message)
        target = await self._target(made, message, queue)
        address = self._address(target)
        request = made.request(self.group, target, self.hub.now_ms, self.hub.config)
        self.hub.tell(address, made.code, request.ext or {}, made.body)
        return address

    def send_soon(self, message: Message, queue: QueueWanted = None) -> Promise[SendResult]:
        """Send one without waiting; the promise has what became of it."""
        nbytes = len(message.body)
        self.pending += 1
        self._pending_bytes += nbytes
        job = Job(self.send(message, queue))
        job.then(lambda _: self._settled(nbytes))
        return job

    @property
    def is_full(self) -> bool:
        """True while ``max_pending`` messages, or ``max_pending_bytes``, are under way."""
        config = self.hub.config
        return self.pending >= config.max_pending or self._pending_bytes >= config.max_pending_bytes

    def settled(self) -> Promise[None]:
        """A promise kept once one of the messages under way has ended; at once if none is."""
        promise = Promise[None]()
        if self.pending:
            self._waiting.append(promise)
        else:
            promise.keep(None)
        return promise

    def _settled(self, nbytes: int) -> None:
        self.pending -= 1
        self._pending_bytes -= nbytes
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for promise in waiting:
                promise.keep(None)

    def _draft(self, message: Message, **more: str) -> Draft:
        config = self.hub.config
        message.check(config.max_message_size)
        return draft(message, self.ids.next(), config, **more)

    # --- the way of a message --------------------------------------------------------------------

    async def deliver(
        self,
        made: Draft,
        message: Message,
        queue: QueueWanted = None,
        seconds: float | None = None,
    ) -> list[SendResult]:
        """Send a draft, to one broker after the other until one has it. Raises ClientError."""
        if self.hub.is_closed:
            raise Stopped
        self.begin()
        config = self.hub.config
        if seconds is None:
            seconds = config.send_msg_timeout
        deadline = self.hub.clock.monotonic_ns() + int(seconds * SECOND)
        # A chosen queue is never changed by a retry: its order is why it was chosen.
        is_free = queue is None and not message.sharding_key
        tries = 1 + config.retry_times_when_send_failed if is_free else 1
        errors: list[ClientError] = []
        stored: list[SendResult] | None = None
        avoided, denied = "", set[str]()
        for _ in range(tries):
            left = (deadline - self.hub.clock.monotonic_ns()) / SECOND
            # The time is for all tries together, as with Java's sendMsgTimeout.
            if left <= 0:
                break
            target = await self._target(made, message, queue, avoided, denied)
            avoided = target.brokerName
            if avoided in denied:  # and no other may be asked
                break
            try:
                found = await self._attempt(made, message, target, left)
            except (BrokerError, NotConnected) as error:
                is_final = isinstance(error, BrokerError) and error.code not in RETRIED
                goes_on = is_free and not is_final
                self._failed(made, target, error, goes_on=goes_on)
                if not goes_on:
                    raise
                errors.append(error)
                if isinstance(error, NoPermission):
                    denied.add(target.brokerName)
                continue
            if found[0].status is SendStatus.SEND_OK:
                return found
            # Stored, though not as safely as wished: with the option another broker gets it as
            # well, and the message is there twice.
            stored = found
            if not config.retry_another_broker_when_not_store_ok:
                return found
        if stored is not None:
            return stored
        raise _sum_of(made.topic, errors, seconds)

    async def _target(
        self,
        made: Draft,
        message: Message,
        queue: QueueWanted,
        avoided: str = "",
        denied: Collection[str] = (),
    ) -> MessageQueue:
        if isinstance(queue, MessageQueue):
            topic = wrap(self.hub.config.namespace, queue.topic)
            if queue.brokerName not in self.hub.routes.brokers:
                await self.hub.routes.to_send(topic)
            return queue._replace(topic=topic)
        route = await self.hub.routes.to_send(made.topic)
        if queue is not None:
            return queue(route.writable)
        if message.sharding_key:
            # As Java's SelectMessageQueueByHash: both put a key into the same queue.
            return route.writable[abs(java_hash(message.sharding_key)) % len(route.writable)]
        queues = route.writable
        if denied:
            # All have denied it: the loop above sees that and ends.
            queues = tuple(each for each in queues if each.brokerName not in denied) or queues
        return self._choice.choose(queues, avoided)

    def _address(self, queue: MessageQueue) -> str:
        address = self.hub.routes.master(queue.brokerName)
        if address is None:
            raise no_broker(queue.brokerName)
        return self.hub.vip(address)

    async def _attempt(
        self, made: Draft, message: Message, queue: MessageQueue, seconds: float
    ) -> list[SendResult]:
        hub = self.hub
        address = self._address(queue)
        began = hub.clock.monotonic_ns()
        request = made.request(self.group, queue, hub.now_ms, hub.config)
        answer = await hub.asked(address, request, seconds)
        took = (hub.clock.monotonic_ns() - began) / SECOND
        found = results(answer, made, queue, address)
        if self._faults is not None:
            self._faults.report(queue.brokerName, took)
        if self.tracer is not None:
            self.tracer.sent(self.group, message, made, found, address, took)
        return found

    def _failed(
        self, made: Draft, queue: MessageQueue, error: ClientError, *, goes_on: bool
    ) -> None:
        """A try has; of a thousand messages under way a hundred say so."""
        broker = queue.brokerName
        if self._log_limit.take_line(self.hub.clock.monotonic_ns()):
            more = self._log_limit.told_kept_back()
            again = ", resend at once" if goes_on else ""
            tell(
                logging.WARNING,
                "send-failed",
                f"sendKernelImpl exception{again}: {error}{more}",
                topic=made.topic,
                broker=broker,
                group=self.group,
            )
        if self._faults is not None:
            if not self._faults.rests(broker):
                text = f"broker {broker} rests"
                tell(logging.INFO, "avoided", text, broker=broker, group=self.group)
            self._faults.report(broker, 0.0, failed=True)
        # Whatever failed, the route may be why.
        self.hub.routes.doubt(made.topic)

    # --- the rest --------------------------------------------------------------------------------

    async def recall(self, topic: str, handle: str) -> str:
        """Take back a message that waits for its time; its id. Raises ClientError."""
        topic = wrap(self.hub.config.namespace, checked_topic(topic))
        self.begin()
        route = await self.hub.routes.to_send(topic)
        broker = _broker_of(handle)
        if broker not in {queue.brokerName for queue in route.writable}:
            raise no_broker(broker)
        fields = {
            "producerGroup": self.group,
            "topic": topic,
            "recallHandle": handle,
            "bname": broker,
        }
        address = self._address(MessageQueue(broker, 0, topic))
        answer = await self.hub.demand(
            address, RequestCode.RECALL_MESSAGE, fields, subject=f"topic {topic}"
        )
        return answer.optional("msgId") or ""

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written. Raises ClientError."""
        namespace = self.hub.config.namespace
        self.begin()
        route = await self.hub.routes.to_send(wrap(namespace, topic))
        return [each._replace(topic=unwrap(namespace, each.topic)) for each in route.writable]

    async def leave(self) -> None:
        """Send what is gathered, and tell the brokers that nobody is here any more."""
        if self.tracer is not None:
            await self.tracer.flush()
        await self.heartbeats.leave(producerGroup=self.group)


def _broker_of(handle: str) -> str:
    """The broker that gave a handle, ``v1 topic broker time id`` in base64. Raises BadMessage."""
    try:
        return base64.b64decode(handle, b"-_", validate=True).decode().split(" ")[2]
    except (binascii.Error, ValueError, IndexError):
        raise BadMessage(f"no recall handle: {shortened(handle)}") from None


def _sum_of(topic: str, errors: list[ClientError], seconds: float) -> ClientError:
    if not errors:
        return TimedOut(topic, f"the send was not begun within {seconds:g} s")
    return errors[0] if len(errors) == 1 else SendFailed(topic, errors)


def tracer(hub: Hub) -> Tracer:
    """A tracer that sends as Java's does."""
    return Tracer(hub, Publisher(GROUP, hub, traces=False).send)
