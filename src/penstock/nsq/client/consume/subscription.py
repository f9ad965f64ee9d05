"""A channel of a topic as its consumer sees it, without I/O: both consumers are made of this.

It knows which nodes to connect to and when, which nsqlookupd to ask, how much RDY each connection
gets, what has come, and what a consumer can be asked about itself. How bytes get to nodes, and how
one waits, is the matter of the two shells: they fill in the methods under "What a shell does".
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic, NamedTuple, Never, TypeVar

from penstock.core.chance import Chance, SystemChance
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.redaction import without_secrets
from penstock.core.units import SECOND, format_duration
from penstock.nsq.client.config import Config, refuse_unknown
from penstock.nsq.client.consume.discovery import Discovery
from penstock.nsq.client.consume.flow import Flow
from penstock.nsq.client.consume.inbox import Inbox
from penstock.nsq.client.consume.ready import Orders
from penstock.nsq.client.consume.reconnect import Reconnect
from penstock.nsq.client.consume.replies import Link, Outcome, Replies
from penstock.nsq.client.errors import ClientError, LookupFailed, NotConnected
from penstock.nsq.client.events import tell
from penstock.nsq.client.lookup import parse_answer
from penstock.nsq.client.message import Message
from penstock.nsq.client.names import (
    checked_addresses,
    checked_channel,
    checked_topic,
    listed_addresses,
)
from penstock.nsq.client.state import ConnectionState
from penstock.nsq.protocol.frames import Frame, MessageBlock

_STARVED = 0.85
"""The part of RDY that may be in flight; a little early, as the client guide has it."""

EVERYONE = 1 << 30
"""More than ever wait for messages."""

GiveUp = Callable[[Message], object]


LinkT = TypeVar("LinkT", bound=Link)


class BackoffState(NamedTuple):
    """The state of a consumer's backoff, which failed messages cause."""

    level: int
    """0 for as quick as can be; one more for each failure, one less for each success."""
    remaining: float
    """Seconds until one message is let through again; 0 while nothing is held back, or that one
    is awaited."""


class Subscription(ABC, Generic[LinkT]):
    """Everything about a consumer but its sockets."""

    def __init__(
        self,
        topic: str,
        channel: str,
        *,
        nsqd_tcp_addresses: Iterable[str] = (),
        lookupd_http_addresses: Iterable[str] = (),
        max_in_flight: int | None = None,
        config: Config | None = None,
        required: bool = False,
        reconnect_delay: float = 1.0,
        clock: Clock = SYSTEM_CLOCK,
        chance: Chance | None = None,
        **unknown: Never,
    ) -> None:
        """See the shells. Raises BadTopic, BadChannel, ConfigError; ValueError for an address."""
        refuse_unknown(type(self).__name__, unknown)
        self.topic = checked_topic(topic, "SUB")
        self.channel = checked_channel(channel)
        self.on_give_up: GiveUp | None = None
        """Called with a message that was tried too often, before it is finished."""
        self.last_error: ClientError | None = None
        """The last error of a node or an nsqlookupd."""
        self._config = (config or Config()).validate()
        self._required = required
        self._clock = clock
        self._tell = partial(tell, topic=self.topic, channel=self.channel)
        chance = chance or SystemChance()
        self._flow: Flow[Replies] = Flow(
            self._config, clock, chance, in_flight=_in_flight_of, tell=self._tell
        )
        direct = checked_addresses(nsqd_tcp_addresses)
        self._nodes = Reconnect(direct, self._config, clock, chance, reconnect_delay)
        lookupds = listed_addresses(lookupd_http_addresses)
        if not direct and not lookupds:
            raise ConfigError("no address is given")
        self._discovery = Discovery(lookupds, self.topic, self._config, clock, chance)
        self._inbox = Inbox(self._config.max_attempts)
        self._replies: dict[LinkT, Replies] = {}
        self._fatal: ClientError | None = None
        """The reason why there is no going on."""
        self._closing = False
        if max_in_flight is not None:
            self.max_in_flight = max_in_flight

    # --- what can be seen ------------------------------------------------------------------------

    @property
    def connections(self) -> Mapping[str, ConnectionState]:
        """The connections at present, by address; live, and counted on."""
        return {link.address: link.state for link in self._replies}

    @property
    def in_flight(self) -> int:
        """Messages received and not answered yet."""
        return sum(replies.in_flight for replies in self._replies.values())

    @property
    def is_starved(self) -> bool:
        """True if a node is about to send no more, because too many messages are unanswered.

        Consumers that collect messages should handle them now (client guide, "Starvation").
        """
        return any(
            0 < replies.in_flight >= int(self._flow.ready(replies) * _STARVED)
            for replies in self._replies.values()
        )

    @property
    def backoff(self) -> BackoffState:
        """The state of the backoff, which failed messages cause."""
        backoff = self._flow.backoff
        waits = 0 if backoff.until is None else backoff.until - self._clock.monotonic_ns()
        return BackoffState(backoff.level, max(0, waits) / SECOND)

    @property
    def max_in_flight(self) -> int:
        """The most messages that may be unanswered, over all connections; 0 pauses. Can be set."""
        return self._flow.max_in_flight

    @max_in_flight.setter
    def max_in_flight(self, count: int) -> None:
        if count < 0:
            raise ValueError(f"max_in_flight {count} is negative")
        self._send(self._flow.set_max_in_flight(count))
        self._rescheduled()

    # --- what a shell does -----------------------------------------------------------------------

    @abstractmethod
    def _connect_to(self, address: str) -> None:
        """Connect; tell ``_joined`` or ``_failed``."""

    @abstractmethod
    def _ask(self, url: str) -> None:
        """Ask an nsqlookupd; tell ``_answered`` or ``_not_answered``."""

    @abstractmethod
    def _soon(self, flush: Callable[[], None]) -> None:
        """Call it at the end of this pass of the loop."""

    def _arrived(self, count: int) -> None:
        """Let ``count`` of those who wait look again."""

    def _rescheduled(self) -> None:
        """``_deadline`` may have changed."""

    def _say_stopping(self) -> None:
        self._tell(logging.INFO, "closing", "stopping...")

    # --- time ------------------------------------------------------------------------------------

    @property
    def _deadline(self) -> int | None:
        """The time to call ``_tick``, in nanoseconds of the clock."""
        if self._closing:
            return None
        due = (self._flow.deadline, self._nodes.deadline, self._discovery.due)
        return min((one for one in due if one is not None), default=None)

    def _tick(self) -> None:
        """Do what is due."""
        if self._closing:
            return
        self._send(self._flow.tick())
        for address in self._nodes.begin():
            self._tell(logging.INFO, "connecting", "connecting to nsqd", address=address)
            self._connect_to(address)
        for url in self._discovery.begin():
            shown = without_secrets(url)
            self._tell(logging.INFO, "lookup", f"querying nsqlookupd {shown}", url=shown)
            self._ask(url)

    # --- connections -----------------------------------------------------------------------------

    def _joined(self, link: LinkT) -> None:
        """The handshake is done: the first RDY follows at once."""
        address, most = link.address, link.server.max_rdy_count
        self._nodes.connected(address)
        self._tell(logging.DEBUG, "connected", "connected", address=address)
        if most < self.max_in_flight:
            bounds = f"max RDY count {most} < consumer max in flight {self.max_in_flight}"
            text = f"{bounds}, truncation possible"
            self._tell(logging.WARNING, "ready", text, address=address)
        backoff = self._flow.backoff
        replies = Replies(link, self._config, backoff, self._outcome, self._soon)
        self._replies[link] = replies
        self._send(self._flow.connected(replies, most))
        self._rescheduled()

    def _failed(self, address: str, error: ClientError) -> None:
        """Note a failed connection. Whoever iterates is told when there is no going on."""
        if self._closing:
            return
        self.last_error = error
        is_new = self._nodes.is_direct(address) and not self._nodes.is_proven(address)
        # A refusal at the first contact is final: options or the secret are wrong. So is a node
        # that cannot be reached, where the caller requires it.
        if is_new and (self._required or not isinstance(error, NotConnected)):
            self._fatal = error
            self._arrived(EVERYONE)
            return
        reason = error.reason if isinstance(error, NotConnected) else str(error)
        text = f"error connecting to nsqd - {reason}"
        self._tell(logging.ERROR, "connect-failed", text, address=address)
        self._retry_in(address, self._nodes.failed(address))

    def _lost(self, link: LinkT, error: NotConnected) -> None:
        """A connection has ended; what it brought comes again over another."""
        replies = self._replies.pop(link, None)
        if replies is None:
            return
        replies.close()
        # Nobody could answer them: they come again when the node has timed them out.
        self._inbox.discard(replies)
        if self._closing:
            return
        self.last_error = error
        text = f"IO error - {error.reason}"
        self._tell(logging.ERROR, "disconnected", text, address=link.address)
        left = len(self._replies)
        text = f"there are {left} connections left alive"
        self._tell(logging.WARNING, "disconnected", text, left=left)
        self._send(self._flow.lost(replies))
        # As in go-nsq nsqlookupd is asked at once when a connection ends (NSQ spec 7.4).
        self._discovery.soon()
        self._retry_in(link.address, self._nodes.lost(link.address))

    def _retry_in(self, address: str, delay: int | None) -> None:
        if delay is not None:
            text = f"re-connecting in {format_duration(delay)}"
            self._tell(logging.INFO, "reconnecting", text, address=address, delay_ns=delay)
        self._rescheduled()

    # --- nsqlookupd ------------------------------------------------------------------------------

    def _answered(self, url: str, status: int, body: bytes) -> None:
        """An nsqlookupd has answered something."""
        try:
            nodes = parse_answer(status, body)
        except LookupFailed as error:
            self._not_answered(url, error)
            return
        self._discovery.answered(url)
        for address in self._nodes.found(node.tcp_address for node in nodes):
            self._tell(logging.DEBUG, "discovered", "discovered", address=address)
        self._rescheduled()

    def _not_answered(self, url: str, error: ClientError) -> None:
        """An nsqlookupd has not answered, or not sensibly."""
        self.last_error = error
        self._discovery.failed(url)
        text = f"error querying nsqlookupd ({without_secrets(url)}) - {error}"
        self._tell(logging.ERROR, "lookup-failed", text)
        self._rescheduled()

    # --- messages --------------------------------------------------------------------------------

    def _take(self, link: LinkT, frame: Frame) -> None:
        """A frame has come; only messages matter here."""
        if type(frame) is not MessageBlock:
            return
        link.add_in_flight(frame.count)
        replies = self._replies[link]
        self._inbox.put(replies, frame)
        if self._closing:
            # They were under way when CLS was sent: another consumer gets them without a time-out.
            self._inbox.give_back()
            return
        self._flow.came(replies)
        self._arrived(frame.count)

    def _outcome(self, outcome: Outcome) -> None:
        """Note how one message, or several at once, fared."""
        flow = self._flow
        if outcome is Outcome.SUCCESS:
            orders = flow.succeeded()
        elif outcome is Outcome.FAILURE:
            orders = flow.failed()
        else:
            orders = flow.continued()
        self._send(orders)
        self._rescheduled()

    def _send(self, orders: Orders[Replies]) -> None:
        for replies, count in orders:
            text = f"sending RDY {count}"
            self._tell(logging.DEBUG, "ready", text, address=replies.address, ready=count)
            replies.set_ready(count)

    def _given_up(self, message: Message) -> object:
        """Report a message that was tried too often; return what ``on_give_up`` returns."""
        identifier = message.id.decode("ascii", "replace")
        text = f"msg {identifier} attempted {message.attempts} times, giving up"
        node, attempts = message.address, message.attempts
        self._tell(logging.WARNING, "given-up", text, node=node, id=identifier, attempts=attempts)
        return self.on_give_up(message) if self.on_give_up is not None else None

    def _handler_failed(self, message: Message, error: BaseException) -> None:
        """A handler has raised: the message comes again, and the consumer slows down."""
        identifier = message.id.decode("ascii", "replace")
        text = f"Handler returned error ({str(error) or type(error).__name__}) for msg {identifier}"
        fields = {"id": identifier, "error": repr(error)}
        trace = None if isinstance(error, PenstockError) else error  # ours say all in a line
        self._tell(logging.ERROR, "handler-failed", text, trace=trace, **fields)
        message.requeue()


def _in_flight_of(replies: Replies) -> int:
    return replies.in_flight
