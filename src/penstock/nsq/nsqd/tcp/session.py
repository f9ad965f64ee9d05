"""The effects of a connection's commands: the protocol's events meet the broker (NSQ protocol V2).

The protocol itself is in ``penstock.nsq.protocol``, reading and flow in ``connection``. A publish
is answered when its pass of the loop has committed it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import ClassVar, Final

import numpy as np

from penstock.broker.channels.channel import Channel, NotInFlightError
from penstock.broker.channels.consumer import Consumer, Delivery, Locality
from penstock.broker.runs import Offsets
from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.core.log_limit import LogLimit
from penstock.core.units import format_duration
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqd.tcp.connection import ENDED, Connection, Handlers
from penstock.nsq.nsqd.tcp.outbox import frames_of
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
from penstock.nsq.protocol.identify import Identity, identify, negotiate
from penstock.storage.batch import Buffer

logger = logging.getLogger(__name__)

TOPOLOGY_EXPERIMENT: Final = "topology-aware-consumption"
"""The value of --enable-experiment with which nearer consumers come first (NSQ spec 3.11)."""
PUB_COUNTS_MIN: Final = 1000
"""The number of topics up to which a session counts its publishes to those that are gone, too."""
_UINT64 = (1 << 64) - 1


class Session:
    """A client as the broker sees it: its subscription, and its publishes that wait for answers."""

    takes_plain: ClassVar[bool] = True

    def __init__(self, connection: Connection, sessions: dict[Session, None]) -> None:
        """Enter the session among ``sessions`` while its connection is open."""
        self.connection = connection
        self.authorizations: Authorizations | None = None
        """The answer of the auth servers; None before AUTH, or without such servers."""
        self.topic: Topic | None = None
        self.channel: Channel | None = None
        self.consumer: Consumer | None = None
        self._pub_counts_max = PUB_COUNTS_MIN
        node = connection.context.node
        self._context = connection.context
        self._outbox = connection.outbox
        self._sessions = sessions
        self._registry = node.registry
        self._topics = node.broker.topics
        self._commits = node.commits
        self._mpub_topic: Topic | None = None  # of the MPUB whose body is read
        self._log_limit: LogLimit | None = None
        connection.reader.announce_mpub = True
        sessions[self] = None

    # --- the connection's ups and downs --------------------------------------------------------

    def set_writable(self, writable: bool) -> None:
        """Give a client messages only while it reads them."""
        if self.consumer is not None and self.channel is not None:
            self.consumer.writable = writable
            self.channel.refresh(self.consumer)
            if writable:
                self.channel.dispatch(self.connection.clock.monotonic_ns())

    def ended(self) -> None:
        """Give the channel back."""
        if self.channel is not None and self.consumer is not None:
            assert self.topic is not None
            # First: what the registry does next must not find this session in the channel.
            channel, self.channel = self.channel, None
            channel.remove_consumer(self.consumer)
            self._registry.consumer_left(self.topic, channel)

    def lost(self) -> None:
        """Forget the session, with a last line about those that were not logged."""
        self._tell_kept_back()
        self._sessions.pop(self, None)

    # --- commands ------------------------------------------------------------------------------

    def _on_publish(self, event: Publish) -> None:
        name, bodies = event.topic, event.bodies
        if event.command == "MPUB":
            # V2 protocol, MPUB: its topic is found or made before the body is read (NSQ spec 1.7).
            topic, self._mpub_topic = self._mpub_topic, None
        else:
            topic = self._topics.get(name)
        if topic is None:
            topic = self._make_topic(name, event.command)
            if topic is None:
                return
        self._stage(topic, event.command, bodies, event.delay_ns)

    def _stage(self, topic: Topic, command: str, bodies: Bodies, delay_ns: int) -> None:
        """Publish with this pass of the loop."""
        connection = self.connection
        connection.owed += 1
        self.count(topic.name, bodies.count)
        # The number of this publish: those that are answered, and those owed up to it.
        done = partial(self.published, command, connection.told + connection.owed)
        self._commits.publish(topic, bodies, delay_ns, done)

    def count(self, topic: str, messages: int) -> None:
        """Count messages that are published to a topic."""
        counts = self.connection.pub_counts
        if topic not in counts and len(counts) >= self._pub_counts_max:
            self._forget_gone()
        counts[topic] = counts.get(topic, 0) + messages

    def _forget_gone(self) -> None:
        """Count no publishes to topics that are gone: a program may answer each of its clients by
        an #ephemeral topic of theirs.
        """
        counts = self.connection.pub_counts
        for name in [name for name in counts if name not in self._topics]:
            del counts[name]
        self._pub_counts_max = max(PUB_COUNTS_MIN, 2 * len(counts))

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
            # In turn: a client takes the next frame for the answer to its oldest publish.
            self.connection.fail_in_turn(f"E_{command}_FAILED {command} failed {failure}")
            return None

    def published(
        self, command: str, turn: int, failure: StorageError | None, count: int = 1
    ) -> None:
        """Answer ``count`` publishes from this number on as soon as all earlier ones are answered.

        Another topic may be stored or synced sooner, but its answers must wait: a client matches
        answers to publishes by their order.
        """
        connection = self.connection
        early = connection.early
        if turn != connection.told + 1:
            early[turn] = command, failure, count
            return
        while True:
            connection.told += count
            connection.owed -= count
            if connection.phase is not ENDED:
                if failure is None:
                    self._outbox.answer(OK_FRAME * count, connection.owed > 0)
                    if connection.behind:
                        frames, connection.behind = connection.behind, []
                        self._send_messages(frames)
                else:
                    # V2 protocol: only FIN, REQ and TOUCH fail without an end (NSQ spec 1.1).
                    connection.fail(f"E_{command}_FAILED {command} failed {failure}")
                connection.answered()
            turn += count
            if turn not in early:
                return
            command, failure, count = early.pop(turn)

    def _on_finish(self, event: Finish) -> None:
        topic, channel, consumer = self._subscribed()
        ids, base = event.ids, topic.log.id_base
        offsets: Offsets
        if isinstance(ids, list):
            offsets = [value - base for value in ids]
        else:
            # Signed: an id below the base makes a negative offset, which is never in flight.
            offsets = ids.astype(np.int64) - base
        failed = channel.finish(consumer, offsets)
        for offset in failed:
            # The id as it was sent, whatever the subtraction made of it.
            message_id = b"%016x" % (offset + base & _UINT64)
            self._complain("FIN", message_id, channel.why_not(offset))
        # nsqd knows ids as 16 bytes: one that is not ours is an id that is not in flight.
        for message_id in event.raw:
            self._complain("FIN", message_id, "ID not in flight")
        channel.dispatch(self.connection.heard_ns)

    def _on_requeue(self, event: Requeue) -> None:
        _, channel, consumer = self._subscribed()
        longest = self._context.limits.max_req_timeout
        # nsqd clamps a delay since 1.1.0, where NSQ's documents promise an error.
        delay = max(0, min(event.delay_ns, longest))
        if delay != event.delay_ns and self._take_log_line():
            logger.info(
                "PROTOCOL(V2): [%s] REQ timeout %s out of range 0-%s. Setting to %s",
                self.connection.remote_address,
                format_duration(event.delay_ns),
                format_duration(longest),
                format_duration(delay),
            )
        try:
            channel.requeue(consumer, self._offset(event.id), delay, self.connection.heard_ns)
        except NotInFlightError as failure:
            self._complain("REQ", event.id, str(failure))
        channel.dispatch(self.connection.heard_ns)

    def _on_touch(self, event: Touch) -> None:
        _, channel, consumer = self._subscribed()
        try:
            channel.touch(consumer, self._offset(event.id), self.connection.heard_ns)
        except NotInFlightError as failure:
            self._complain("TOUCH", event.id, str(failure))

    def _on_ready(self, event: Ready) -> None:
        _, channel, consumer = self._subscribed()
        consumer.ready = event.count
        channel.refresh(consumer)
        # nsqd sends what is buffered once a client is not ready, as nothing else would flush it.
        if consumer.room() <= 0:
            self._outbox.flush()
        channel.dispatch(self.connection.heard_ns)

    def _on_subscribe(self, event: Subscribe) -> None:
        try:
            topic = self._registry.topic(event.topic)
        except StorageError as failure:
            self.connection.fail(f"E_SUB_FAILED SUB failed {failure}")
            return
        if topic.exiting:  # a channel made now would go with it at once
            self.connection.fail("E_SUB_FAILED SUB failed exiting")
            return
        # Go tries again if an ephemeral channel is deleted before the consumer is in it (NSQ spec
        # 1.3, SUB row 8). Here nothing runs between this and ``add_consumer``.
        channel = self._registry.channel(topic, event.channel)
        # The text is that of nsqd since 1.2.1; 1.2.0 had E_TOO_MANY_CHANNEL_CONSUMERS.
        # Once the channel is made, as in Go, where AddClient checks it (nsqd/channel.go).
        limit = self._context.options.max_channel_consumers
        if limit and len(channel.consumers) >= limit:
            name = f"{topic.name}:{channel.name}"
            self.connection.fail(
                f"E_SUB_FAILED SUB failed consumers for {name} exceeds limit of {limit}"
            )
            return
        identity = self.connection.identity
        self.consumer = Consumer(
            self._deliver,
            identity.msg_timeout,
            identity.sample_rate,
            locality(identity, self._context.options),
        )
        channel.add_consumer(self.consumer)
        self.topic, self.channel = topic, channel
        # go-nsq sends RDY without waiting for this OK: the reader takes it next (NSQ spec 1.8).
        self.connection.reader.state = State.SUBSCRIBED
        self._outbox.send(OK_FRAME)

    def _on_identify(self, event: Identify) -> None:
        connection, context = self.connection, self._context
        try:
            identity = identify(event.body, context.limits, connection.identity)
            connection.identity = identity
            outcome = negotiate(identity, context.features, context.limits)
        except ProtocolError as failure:
            # V2 protocol, IDENTIFY: each refusal is fatal (NSQ spec 1.3).
            connection.fail(failure.text)
            return
        # The latest IDENTIFY counts; Go's message pump keeps what the first said (NSQ spec 1.4).
        connection.reader.heartbeats_disabled = not identity.heartbeat_interval
        self._outbox.size = identity.output_buffer_size
        self._outbox.timeout = identity.output_buffer_timeout
        connection.resume_heartbeats()
        # Before any layer is put on: the client learns from it which ones come (NSQ spec 1.6).
        self._outbox.send(response(outcome.response))
        if outcome.tls_v1 or outcome.deflate or outcome.snappy:
            Layering(connection, outcome, context.tls).begin()

    def _on_auth(self, event: Auth) -> None:
        # V2 protocol, AUTH row 8: with auth servers it is a ``GuardedSession`` (NSQ spec 1.3).
        self.connection.fail("E_AUTH_DISABLED AUTH disabled")

    def _on_close(self, event: Close) -> None:
        _, channel, consumer = self._subscribed()
        # nsqd leaves closing to the client, which may still answer what it has in flight.
        consumer.ready = 0
        channel.refresh(consumer)
        self.connection.reader.state = State.CLOSING
        self._outbox.send(CLOSE_WAIT_FRAME)

    def _on_nop(self, event: Nop) -> None:
        """A sign of life, and that is noted already."""

    def _on_failure(self, event: Failure) -> None:
        self.connection.fail(event.text)

    def _on_drop(self, event: Drop) -> None:
        logger.error("client(%s) - command line too long", self.connection.remote_address)
        self.connection.close()

    # --- out -----------------------------------------------------------------------------------

    def _deliver(self, deliveries: list[Delivery]) -> None:
        frames: list[Buffer] = [frames_of(delivery) for delivery in deliveries]
        if self.connection.owed:  # one that publishes too gets its OK first, as from Go's nsqd
            self.connection.behind += frames
        else:
            self._send_messages(frames)

    def _send_messages(self, frames: list[Buffer]) -> None:
        assert self.consumer is not None
        nbytes = sum([len(frame) for frame in frames])
        self._outbox.buffer(frames, nbytes, self.consumer.room() > 0)

    def _complain(self, command: str, message_id: bytes, reason: str) -> None:
        """An error that the connection survives."""
        # nsqd closes after every other error, and nsqjs does so at any error but these three.
        shown = message_id.decode("utf-8", "surrogateescape")
        text = f"E_{command}_FAILED {command} {shown} failed {reason}"
        if self._take_log_line():
            logger.error("[%s] - %s - %s", self.connection.remote_address, text, reason)
        # Hundreds of FINs may fail in one read: their frames share a write.
        self._outbox.answer(error(text), more_owed=True)

    def _take_log_line(self) -> bool:
        """Take a line of those that clients can cause at will; False if none is left now."""
        limit = self._log_limit = self._log_limit or LogLimit()
        if not limit.take_line(self.connection.heard_ns):
            return False
        self._tell_kept_back()
        return True

    def _tell_kept_back(self) -> None:
        if self._log_limit is not None and (count := self._log_limit.take_kept_back()):
            logger.error(
                "[%s] - %d more lines about its commands were left out",
                self.connection.remote_address,
                count,
            )

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


def locality(identity: Identity, options: NsqdOptions) -> Locality:
    """The proximity of a client: this zone, this region, or any; an empty name is nobody's.

    Without the experiment all consumers are alike.
    """
    if TOPOLOGY_EXPERIMENT in options.enable_experiment:
        # In Go two empty names are equal, so that clients without a zone may be local ones.
        if options.topology_zone and identity.topology_zone == options.topology_zone:
            return Locality.ZONE
        if options.topology_region and identity.topology_region == options.topology_region:
            return Locality.REGION
    return Locality.ANYWHERE
