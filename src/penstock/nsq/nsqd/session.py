"""One TCP connection of nsqd: commands in, answers and messages out (NSQ protocol V2).

The protocol itself is in ``penstock.nsq.protocol``; here its events meet the broker. Answers leave
in the order of the commands: a publish is answered when its pass of the loop has committed it, and
a command that needs an answer of its own waits until the publishes before it have theirs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from penstock.broker.channel import Channel, NotInFlightError
from penstock.broker.consumer import Consumer, Delivery
from penstock.broker.topic import Topic
from penstock.core.errors import StorageError
from penstock.core.units import SECOND, format_duration
from penstock.net.address import show_address
from penstock.nsq.nsqd.delivery import frames_of
from penstock.nsq.nsqd.outbox import Outbox
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.events import (
    Auth,
    Close,
    Drop,
    Event,
    Failure,
    Finish,
    Identify,
    Nop,
    Publish,
    Ready,
    Requeue,
    State,
    Subscribe,
    Touch,
)
from penstock.nsq.protocol.finishes import id_value
from penstock.nsq.protocol.frames import (
    CLOSE_WAIT_FRAME,
    HEARTBEAT_FRAME,
    OK_FRAME,
    error,
    response,
)
from penstock.nsq.protocol.identify import Identity, identify, negotiate
from penstock.storage.batch import Buffer

if TYPE_CHECKING:
    from penstock.nsq.nsqd.daemon import Nsqd

logger = logging.getLogger(__name__)

MAGIC_TIMEOUT_S = 60.0
LINGER_S = 1.0
ABORT_S = 30.0
"""How long a connection that is to close may take to send what is written."""
WRITE_HIGH_WATER = 1024 * 1024
_UNSENT_BYTES_MAX = 2 * WRITE_HIGH_WATER
_UINT64 = (1 << 64) - 1
_HELD_BYTES_MAX = 8 * 1024 * 1024


class Session(asyncio.Protocol):
    """A client's connection."""

    def __init__(self, nsqd: Nsqd) -> None:
        self.nsqd = nsqd
        self.reader = CommandReader(nsqd.limits, expect_magic=True)
        self.reader.before_mpub = self._before_mpub
        self.topic: Topic | None = None
        self.channel: Channel | None = None
        self.consumer: Consumer | None = None
        self.pub_counts: dict[str, int] = {}
        self.connected_ns = nsqd.clock.wall_ns()
        self._heard_ns = nsqd.clock.monotonic_ns()
        self._greeted = False
        self._owed = 0  # publishes that are not answered yet
        self._held: Event | None = None  # waits for them
        self._eof = False
        self._ended = False
        self._blocked_since: int | None = None
        self._beat: asyncio.TimerHandle | None = None

    # --- asyncio's side ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self.remote_address = show_address(transport.get_extra_info("peername") or "")
        ip = self.remote_address.rpartition(":")[0].strip("[]")
        self.identity = Identity.unknown(ip, self.nsqd.limits)
        self.outbox = Outbox(self.transport, self.identity.output_buffer_size,
                             self.identity.output_buffer_timeout)  # fmt: skip
        self.nsqd.sessions[self] = None
        logger.info("TCP: new client(%s)", self.remote_address)
        loop = asyncio.get_running_loop()
        self._beat = loop.call_later(MAGIC_TIMEOUT_S, self._on_no_magic)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self.reader.receive_data(data)
        if self._held is None:
            self._read()
        if (self._held is not None or self._blocked_since is not None) and self._is_overfull():
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._eof = True
        if not self._ended and not self._owed:
            self._end_of_input()
        return self._owed > 0 and not self._ended  # keep the way back open for what is owed

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._greeted:
            logger.error("failed to read protocol version - %s", exc or "EOF")
        self._end()
        self._schedule_beat(0)
        self.outbox.close()
        self.nsqd.sessions.pop(self, None)
        logger.info("PROTOCOL(V2): [%s] exiting ioloop", self.remote_address)

    def pause_writing(self) -> None:
        self._blocked_since = self.nsqd.clock.monotonic_ns()
        self._set_writable(False)

    def resume_writing(self) -> None:
        self._blocked_since = None
        self._set_writable(True)
        if self._held is None:
            self.transport.resume_reading()

    def _set_writable(self, writable: bool) -> None:
        if self.consumer is not None and self.channel is not None:
            self.consumer.writable = writable
            self.channel.refresh(self.consumer)
            if writable:
                self.channel.dispatch(self.nsqd.clock.monotonic_ns())

    def _is_overfull(self) -> bool:
        """Whether the client must be heard no more: its commands wait, or it reads no answers."""
        unsent = self.transport.get_write_buffer_size()
        return self.reader.unread > _HELD_BYTES_MAX or unsent > _UNSENT_BYTES_MAX

    # --- commands ------------------------------------------------------------------------------

    def _read(self) -> None:
        next_event = self.reader.next_event
        event = next_event()
        if not self._greeted and self.reader.greeted:
            self._greeted = True
            self._heard_ns = self.nsqd.clock.monotonic_ns()
            self._schedule_beat(self.identity.heartbeat_interval)
        if event is None:
            return
        self._heard_ns = self.nsqd.clock.monotonic_ns()
        while event is not None:
            kind = type(event)
            if self._owed and kind not in _NEVER_ANSWERED:
                self._held = event
                return
            _HANDLERS[kind](self, event)
            if self._ended:
                return
            event = next_event()

    def _resume(self) -> None:
        """All publishes are answered: go on with the command that waited for them."""
        event, self._held = self._held, None
        if event is None or self._ended:
            return
        _HANDLERS[type(event)](self, event)
        if not self._ended:
            self.transport.resume_reading()
            self._read()

    def _on_publish(self, event: Publish) -> None:
        name, bodies = event.topic, event.bodies
        topic = self.nsqd.broker.topics.get(name)
        if topic is None:
            topic = self._make_topic(name, event.command)
            if topic is None:
                return
        self._owed += 1
        self.pub_counts[name] = self.pub_counts.get(name, 0) + bodies.count
        done = partial(self._published, event.command)
        self.nsqd.commits.publish(topic, bodies, event.delay_ns, done)

    def _make_topic(self, name: str, command: str) -> Topic | None:
        try:
            return self.nsqd.topic(name)
        except StorageError as failure:
            self._fail(f"E_{command}_FAILED {command} failed {failure}")
            return None

    def _published(self, command: str, failure: StorageError | None) -> None:
        self._owed -= 1
        if self._ended:
            return
        if failure is None:
            self.outbox.send(OK_FRAME)
        else:
            self._fail(f"E_{command}_FAILED {command} failed {failure}")
        if self._owed:
            return
        if self._held is not None:
            self._resume()
        if self._eof and not self._owed and not self._ended:
            self._end_of_input()

    def _end_of_input(self) -> None:
        """The client sends no more, and has all its answers."""
        failure = self.reader.eof()
        if failure is not None:
            self._fail(failure.text)
        else:
            self.transport.close()

    def _on_finish(self, event: Finish) -> None:
        topic, channel, consumer = self._subscribed()
        offsets = event.ids.astype(np.int64) - topic.log.id_base
        failed = channel.finish(consumer, offsets) if len(offsets) else []
        if failed or event.raw:
            ids = [b"%016x" % (offset + topic.log.id_base & _UINT64) for offset in failed]
            reasons = [channel.why_not(offset) for offset in failed]
            ids += event.raw
            reasons += ["ID not in flight"] * len(event.raw)
            for message_id, reason in zip(ids, reasons, strict=True):
                self._complain("FIN", message_id, reason)
        channel.dispatch(self._heard_ns)

    def _on_requeue(self, event: Requeue) -> None:
        _, channel, consumer = self._subscribed()
        longest = self.nsqd.limits.max_req_timeout
        delay = max(0, min(event.delay_ns, longest))
        if delay != event.delay_ns:
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
            topic = self.nsqd.topic(event.topic)
        except StorageError as failure:
            self._fail(f"E_SUB_FAILED SUB failed {failure}")
            return
        channel = self.nsqd.channel(topic, event.channel)
        limit = self.nsqd.options.max_channel_consumers
        if limit and len(channel.consumers) >= limit:
            self._fail(f"E_SUB_FAILED SUB failed consumers for {topic.name}:{channel.name} "
                       f"exceeds limit of {limit}")  # fmt: skip
            return
        self.consumer = Consumer(self._deliver, self.identity.msg_timeout,
                                 self.identity.sample_rate)  # fmt: skip
        channel.add_consumer(self.consumer)
        self.topic, self.channel = topic, channel
        self.reader.state = State.SUBSCRIBED
        self.outbox.send(OK_FRAME)

    def _on_identify(self, event: Identify) -> None:
        try:
            self.identity = identify(event.body, self.nsqd.limits, self.identity)
            outcome = negotiate(self.identity, self.nsqd.features, self.nsqd.limits)
        except ProtocolError as failure:
            self._fail(failure.text)
            return
        self.reader.heartbeats_disabled = not self.identity.heartbeat_interval
        self.outbox.size = self.identity.output_buffer_size
        self.outbox.timeout = self.identity.output_buffer_timeout
        self._schedule_beat(self.identity.heartbeat_interval)
        self.outbox.send(response(outcome.response))

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

    def _before_mpub(self, name: str) -> Failure | None:
        """As upstream, an MPUB makes its topic before its body is read."""
        try:
            self.nsqd.topic(name)
        except StorageError as failure:
            text = f"E_MPUB_FAILED MPUB failed {failure}"
            return Failure("E_MPUB_FAILED", text, True, "MPUB", name)
        return None

    def _on_failure(self, event: Failure) -> None:
        self._fail(event.text)

    def _on_drop(self, event: Drop) -> None:
        logger.error("client(%s) - command line too long", self.remote_address)
        self.close()

    # --- out -----------------------------------------------------------------------------------

    def _deliver(self, deliveries: list[Delivery]) -> None:
        frames: list[Buffer] = [frames_of(delivery) for delivery in deliveries]
        assert self.consumer is not None
        nbytes = sum([len(frame) for frame in frames])
        self.outbox.buffer(frames, nbytes, self.consumer.room() > 0)

    def _complain(self, command: str, message_id: bytes, reason: str) -> None:
        """An error that the connection survives."""
        shown = message_id.decode("utf-8", "surrogateescape")
        text = f"E_{command}_FAILED {command} {shown} failed {reason}"
        logger.error("[%s] - %s - %s", self.remote_address, text, reason)
        self.outbox.send(error(text))

    def _fail(self, text: str) -> None:
        """An error that ends the connection: its frame goes out, then both sides close."""
        logger.error("client(%s) - %s", self.remote_address, text)
        self._end()
        self.outbox.send(error(text))
        if self.transport.can_write_eof():
            # Closing with unread input would reset the connection, and the frame be lost with it.
            self.transport.write_eof()
            asyncio.get_running_loop().call_later(LINGER_S, self.transport.close)
        else:
            self.transport.close()

    def close(self) -> None:
        """End the connection without a word: the channel is deleted, or nsqd stops."""
        if not self._ended:
            self._end()
            self.outbox.flush()
            self.transport.close()

    def _end(self) -> None:
        """Neither commands nor messages from now on; by force if the client does not read."""
        if self._ended:
            return
        self._ended = True
        self._schedule_beat(0)
        self._beat = asyncio.get_running_loop().call_later(ABORT_S, self.transport.abort)
        if self.channel is not None and self.consumer is not None:
            assert self.topic is not None
            channel, self.channel = self.channel, None
            channel.remove_consumer(self.consumer)
            self.nsqd.consumer_left(self.topic, channel)

    # --- heartbeats ----------------------------------------------------------------------------

    def _schedule_beat(self, interval_ns: int) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        if interval_ns:
            loop = asyncio.get_running_loop()
            self._beat = loop.call_later(interval_ns / SECOND, self._on_beat)

    def _on_beat(self) -> None:
        interval = self.identity.heartbeat_interval
        now = self.nsqd.clock.monotonic_ns()
        if self._blocked_since is not None and now - self._blocked_since > interval:
            logger.error("client(%s) - does not read, closing", self.remote_address)
            self.transport.abort()
            return
        if now - self._heard_ns >= 2 * interval:
            self._time_out()
            return
        self.outbox.send(HEARTBEAT_FRAME)
        self._schedule_beat(interval)

    def _time_out(self) -> None:
        failure = self.reader.eof()
        if failure is not None:
            self._fail(failure.text)
        else:
            logger.error("client(%s) - heartbeat timeout", self.remote_address)
            self.close()

    def _on_no_magic(self) -> None:
        logger.error("client(%s) - no protocol magic within %g s", self.remote_address,
                     MAGIC_TIMEOUT_S)  # fmt: skip
        self._greeted = True  # enough was said
        self.close()

    # --- looking -------------------------------------------------------------------------------

    def _subscribed(self) -> tuple[Topic, Channel, Consumer]:
        assert self.topic is not None
        assert self.channel is not None
        assert self.consumer is not None
        return self.topic, self.channel, self.consumer

    def _offset(self, message_id: bytes) -> int:
        """The offset that an id stands for; -1, which is never in flight, when it is none of
        ours.
        """
        assert self.topic is not None
        value = id_value(message_id)
        return -1 if value is None else value - self.topic.log.id_base


_HANDLERS: dict[type, Callable[..., None]] = {
    Publish: Session._on_publish,
    Finish: Session._on_finish,
    Requeue: Session._on_requeue,
    Touch: Session._on_touch,
    Ready: Session._on_ready,
    Subscribe: Session._on_subscribe,
    Identify: Session._on_identify,
    Auth: Session._on_auth,
    Close: Session._on_close,
    Nop: Session._on_nop,
    Failure: Session._on_failure,
    Drop: Session._on_drop,
}

# What may go ahead of owed answers. A publish joins them; FIN, REQ and TOUCH may fail with a frame.
_NEVER_ANSWERED = frozenset((Publish, Ready, Nop))
