"""The effects of a connection's commands: the protocol's events meet the broker (NSQ protocol V2).

The protocol itself is in ``penstock.nsq.protocol``, reading and flow in ``connection``. A publish
is answered when its pass of the loop has committed it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import ClassVar

import numpy as np

from penstock.broker.channels.channel import Channel, NotInFlightError
from penstock.broker.channels.consumer import Consumer, Delivery
from penstock.broker.runs import Offsets
from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.core.log_limit import LogLimit
from penstock.core.units import format_duration
from penstock.nsq.nsqd.tcp.connection import Connection, Handlers
from penstock.nsq.nsqd.tcp.context import Context
from penstock.nsq.nsqd.tcp.delivery import frames_of
from penstock.nsq.nsqd.tcp.lone_publishes import LonePublishes
from penstock.nsq.nsqd.tcp.topology import locality
from penstock.nsq.nsqd.tcp.upgrade import Layering
from penstock.nsq.protocol.authorizations import Authorizations
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.events import (
    Auth,
    Close,
    Drop,
    Failure,
    Finish,
    Identify,
    MpubLine,
    Nop,
    Publish,
    Ready,
    Requeue,
    State,
    Subscribe,
    Touch,
)
from penstock.nsq.protocol.finishes import id_value
from penstock.nsq.protocol.frames import CLOSE_WAIT_FRAME, OK_FRAME, error, response
from penstock.nsq.protocol.identify import identify, negotiate
from penstock.storage.batch import Buffer

logger = logging.getLogger(__name__)

_UINT64 = (1 << 64) - 1


class Session(Connection):
    """A client's connection, and what it is to the broker."""

    authorizations: Authorizations | None = None
    """The answer of the auth servers; None before AUTH, or without such servers."""

    def __init__(self, context: Context, sessions: dict[Session, None]) -> None:
        """While it is connected it is among the ``sessions``."""
        super().__init__(context)
        self._sessions = sessions
        self._registry = context.node.registry
        self._topics = context.node.broker.topics
        self._commits = context.node.commits
        self.reader.announce_mpub = True
        self.topic: Topic | None = None
        self.channel: Channel | None = None
        self.consumer: Consumer | None = None
        self._lone = LonePublishes(context.limits.max_msg_size, context.limits.max_body_size)
        self.pub_counts: dict[str, int] = {}
        self._told = 0  # number of publishes answered
        self._early: dict[int, tuple[str, StorageError | None]] = {}  # outcomes too early to send
        self._mpub_topic: Topic | None = None  # of the MPUB whose body is read
        self._log_limit: LogLimit | None = None
        self._behind: list[Buffer] = []  # messages that wait for an answer that is owed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._sessions[self] = None

    def data_received(self, data: bytes) -> None:
        lone = self._lone.find(data)
        if lone is None or not self._publish_lone(*lone):
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tell_kept_back()
        super().connection_lost(exc)
        self._sessions.pop(self, None)

    # --- commands ------------------------------------------------------------------------------

    def _on_publish(self, event: Publish) -> None:
        name, bodies = event.topic, event.bodies
        if event.command == "MPUB":
            topic, self._mpub_topic = self._mpub_topic, None
        else:
            topic = self._topics.get(name)
        if topic is None:
            topic = self._make_topic(name, event.command)
            if topic is None:
                return
        if bodies.count == 1 and not self._owed:
            self._lone.expect(event.command, name)
        self._stage(topic, event.command, bodies, event.delay_ns)

    def _stage(self, topic: Topic, command: str, bodies: Bodies, delay_ns: int) -> None:
        """Publish with this pass of the loop."""
        self._owed += 1
        self.pub_counts[topic.name] = self.pub_counts.get(topic.name, 0) + bodies.count
        done = partial(self._published, command, self._told + self._owed)
        self._commits.publish(topic, bodies, delay_ns, done)

    def _publish_lone(self, command: str, name: str, body: bytes) -> bool:
        """Publish a message that the parser need not look at; False if it must.

        With nobody to share a write with, this is the straight line from bytes to OK: without an
        event, a place in the order of answers, and a callback.
        """
        topic = self._topics.get(name)
        if topic is None or not self.is_at_a_command:
            return False
        self._heard_ns = now = self.clock.monotonic_ns()
        bodies = Bodies.single(body)
        if self._owed or not self._commits.takes_one(topic):
            self._stage(topic, command, bodies, 0)
            return True
        self._told += 1
        self.pub_counts[name] += 1
        failure = self._commits.publish_one(topic, bodies, now)
        if failure is None:
            self.outbox.send(OK_FRAME)
        else:
            self._fail(f"E_{command}_FAILED {command} failed {failure}")
        return True

    def _on_mpub_line(self, event: MpubLine) -> None:
        """Find or create the topic of an MPUB before its body is read, as upstream does.

        If the topic is deleted before the body is complete, it stays deleted and the MPUB fails.
        """
        topic = self._topics.get(event.topic)
        self._mpub_topic = self._make_topic(event.topic, "MPUB") if topic is None else topic

    def _make_topic(self, name: str, command: str) -> Topic | None:
        try:
            return self._registry.topic(name)
        except StorageError as failure:
            self._fail_in_turn(f"E_{command}_FAILED {command} failed {failure}")
            return None

    def _published(self, command: str, turn: int, failure: StorageError | None) -> None:
        """Answer the publish with this number as soon as all earlier ones are answered.

        Another topic may be stored or synced sooner, but its answers must wait: a client matches
        answers to publishes by their order.
        """
        if turn != self._told + 1:
            self._early[turn] = command, failure
            return
        while True:
            self._told = turn
            self._owed -= 1
            if not self._ended:
                if failure is None:
                    self.outbox.answer(OK_FRAME, self._owed > 0)
                    if self._behind:
                        frames, self._behind = self._behind, []
                        self._send_messages(frames)
                else:
                    self._fail(f"E_{command}_FAILED {command} failed {failure}")
                self._answered()
            turn += 1
            if turn not in self._early:
                return
            command, failure = self._early.pop(turn)

    def _on_finish(self, event: Finish) -> None:
        topic, channel, consumer = self._subscribed()
        ids, base = event.ids, topic.log.id_base
        offsets: Offsets
        if isinstance(ids, list):
            offsets = [value - base for value in ids]
        else:
            offsets = ids.astype(np.int64) - base
        failed = channel.finish(consumer, offsets)
        for offset in failed:
            message_id = b"%016x" % (offset + base & _UINT64)
            self._complain("FIN", message_id, channel.why_not(offset))
        for message_id in event.raw:
            self._complain("FIN", message_id, "ID not in flight")
        channel.dispatch(self._heard_ns)

    def _on_requeue(self, event: Requeue) -> None:
        _, channel, consumer = self._subscribed()
        longest = self.context.limits.max_req_timeout
        delay = max(0, min(event.delay_ns, longest))
        if delay != event.delay_ns and self._may_log():
            logger.info("PROTOCOL(V2): [%s] REQ timeout %s out of range 0-%s. Setting to %s",
                        self.remote_address, format_duration(event.delay_ns),
                        format_duration(longest), format_duration(delay))  # fmt: skip
        try:
            channel.requeue(consumer, self._offset(event.id), delay, self._heard_ns)
        except NotInFlightError as failure:
            self._complain("REQ", event.id, str(failure))
        channel.dispatch(self._heard_ns)

    def _on_touch(self, event: Touch) -> None:
        _, channel, consumer = self._subscribed()
        try:
            channel.touch(consumer, self._offset(event.id), self._heard_ns)
        except NotInFlightError as failure:
            self._complain("TOUCH", event.id, str(failure))

    def _on_ready(self, event: Ready) -> None:
        _, channel, consumer = self._subscribed()
        consumer.ready = event.count
        channel.refresh(consumer)
        if consumer.room() <= 0:
            self.outbox.flush()
        channel.dispatch(self._heard_ns)

    def _on_subscribe(self, event: Subscribe) -> None:
        try:
            topic = self._registry.topic(event.topic)
        except StorageError as failure:
            self._fail(f"E_SUB_FAILED SUB failed {failure}")
            return
        if topic.exiting:  # a channel made now would go with it at once
            self._fail("E_SUB_FAILED SUB failed exiting")
            return
        channel = self._registry.channel(topic, event.channel)
        limit = self.context.options.max_channel_consumers
        if limit and len(channel.consumers) >= limit:
            self._fail(f"E_SUB_FAILED SUB failed consumers for {topic.name}:{channel.name} "
                       f"exceeds limit of {limit}")  # fmt: skip
            return
        self.consumer = Consumer(self._deliver, self.identity.msg_timeout,
                                 self.identity.sample_rate,
                                 locality(self.identity, self.context.options))  # fmt: skip
        channel.add_consumer(self.consumer)
        self.topic, self.channel = topic, channel
        self.reader.state = State.SUBSCRIBED
        self.outbox.send(OK_FRAME)

    def _on_identify(self, event: Identify) -> None:
        try:
            self.identity = identify(event.body, self.context.limits, self.identity)
            outcome = negotiate(self.identity, self.context.features, self.context.limits)
        except ProtocolError as failure:
            self._fail(failure.text)
            return
        self.reader.heartbeats_disabled = not self.identity.heartbeat_interval
        self.outbox.size = self.identity.output_buffer_size
        self.outbox.timeout = self.identity.output_buffer_timeout
        self._schedule_beat(self.identity.heartbeat_interval)
        self.outbox.send(response(outcome.response))
        if outcome.tls_v1 or outcome.deflate or outcome.snappy:
            Layering(self, outcome, self.context.tls).begin()

    def _on_auth(self, event: Auth) -> None:
        self._fail("E_AUTH_DISABLED AUTH disabled")

    def _on_close(self, event: Close) -> None:
        _, channel, consumer = self._subscribed()
        consumer.ready = 0
        channel.refresh(consumer)
        self.reader.state = State.CLOSING
        self.outbox.send(CLOSE_WAIT_FRAME)

    def _on_nop(self, event: Nop) -> None:
        """A sign of life, and that is noted already."""

    def _on_failure(self, event: Failure) -> None:
        self._fail(event.text)

    def _on_drop(self, event: Drop) -> None:
        logger.error("client(%s) - command line too long", self.remote_address)
        self.close()

    # --- out -----------------------------------------------------------------------------------

    def _deliver(self, deliveries: list[Delivery]) -> None:
        frames: list[Buffer] = [frames_of(delivery) for delivery in deliveries]
        if self._owed:  # one that publishes too gets its OK first, as from Go's nsqd
            self._behind += frames
        else:
            self._send_messages(frames)

    def _send_messages(self, frames: list[Buffer]) -> None:
        assert self.consumer is not None
        nbytes = sum([len(frame) for frame in frames])
        self.outbox.buffer(frames, nbytes, self.consumer.room() > 0)

    def _complain(self, command: str, message_id: bytes, reason: str) -> None:
        """An error that the connection survives."""
        shown = message_id.decode("utf-8", "surrogateescape")
        text = f"E_{command}_FAILED {command} {shown} failed {reason}"
        if self._may_log():
            logger.error("[%s] - %s - %s", self.remote_address, text, reason)
        self.outbox.answer(error(text), more_owed=True)

    def _may_log(self) -> bool:
        """True if a line that clients can cause at will may be written now."""
        limit = self._log_limit = self._log_limit or LogLimit()
        if not limit.allows(self._heard_ns):
            return False
        self._tell_kept_back()
        return True

    def _tell_kept_back(self) -> None:
        if self._log_limit is not None and (count := self._log_limit.take_kept_back()):
            logger.error("[%s] - %d more lines about its commands were left out",
                         self.remote_address, count)  # fmt: skip

    def _set_writable(self, writable: bool) -> None:
        if self.consumer is not None and self.channel is not None:
            self.consumer.writable = writable
            self.channel.refresh(self.consumer)
            if writable:
                self.channel.dispatch(self.clock.monotonic_ns())

    def _leave(self) -> None:
        if self.channel is not None and self.consumer is not None:
            assert self.topic is not None
            channel, self.channel = self.channel, None
            channel.remove_consumer(self.consumer)
            self._registry.consumer_left(self.topic, channel)

    # --- looking -------------------------------------------------------------------------------

    def _subscribed(self) -> tuple[Topic, Channel, Consumer]:
        assert self.topic is not None
        assert self.channel is not None
        assert self.consumer is not None
        return self.topic, self.channel, self.consumer

    def _offset(self, message_id: bytes) -> int:
        """The offset that an id stands for; -1, which is never in flight, when it is not
        one of ours.
        """
        assert self.topic is not None
        value = id_value(message_id)
        return -1 if value is None else value - self.topic.log.id_base

    handlers: ClassVar[Handlers] = {
        Publish: _on_publish,
        MpubLine: _on_mpub_line,
        Finish: _on_finish,
        Requeue: _on_requeue,
        Touch: _on_touch,
        Ready: _on_ready,
        Subscribe: _on_subscribe,
        Identify: _on_identify,
        Auth: _on_auth,
        Close: _on_close,
        Nop: _on_nop,
        Failure: _on_failure,
        Drop: _on_drop,
    }
