"""A consumer's answers over one connection: in order, in few pieces, and counted.

FINs are the many: their ids are gathered until the end of a pass of the loop and become one
command line after the other at once. What an outcome means for RDY goes out before the answer that
says so (NSQ spec 8.6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Protocol

from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.server_info import ServerInfo
from penstock.nsq.client.consume.backoff import Backoff
from penstock.nsq.client.errors import NotConnected
from penstock.nsq.client.state import ConnectionState
from penstock.nsq.protocol import encode

_MILLISECONDS = 1000


class Outcome(Enum):
    """The outcome of one message, or of several that were answered together."""

    SUCCESS = auto()
    FAILURE = auto()
    NEITHER = auto()
    """Requeued, but not because something is wrong."""


class Link(Protocol):
    """A connection of a consumer, blocking or not."""

    address: str

    @property
    def server(self) -> ServerInfo:
        """The node's description of itself."""
        ...

    @property
    def state(self) -> ConnectionState:
        """The visible state of the connection."""
        ...

    @property
    def in_flight(self) -> int:
        """Messages received and not answered yet."""
        ...

    def answer(self, command: bytes) -> bool:
        """Send commands about messages, all of a kind; False when the connection is gone."""
        ...

    def add_in_flight(self, count: int) -> None:
        """Count ``count`` more messages in flight."""
        ...

    def settled(self, count: int = 1) -> None:
        """Count ``count`` fewer messages in flight."""
        ...

    def set_ready(self, count: int) -> None:
        """Send RDY. May raise NotConnected."""
        ...


class Replies:
    """The answers of one connection.

    ``outcome`` is told how it went, before the answer is sent; ``soon`` is handed ``flush`` and
    calls it at once or before long. The answers give False, and do nothing, when the connection is
    gone.
    """

    __slots__ = ("_backoff", "_config", "_finished", "_outcome", "_soon", "is_open", "link")

    def __init__(
        self,
        link: Link,
        config: Config,
        backoff: Backoff,
        outcome: Callable[[Outcome], None],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.link = link
        self.is_open = True
        self._config = config
        self._backoff = backoff
        self._outcome = outcome
        self._soon = soon
        self._finished: list[bytes] = []

    @property
    def address(self) -> str:
        """The node at the other end."""
        return self.link.address

    @property
    def in_flight(self) -> int:
        """Messages of this connection that are not answered."""
        return self.link.in_flight - len(self._finished)

    def finish(self, identifier: bytes) -> bool:
        """One message is done."""
        if not self.is_open:
            return False
        # Outside of a backoff a success changes nothing: no call for each message.
        if self._backoff.level:
            self._outcome(Outcome.SUCCESS)
        finished = self._finished
        finished.append(identifier)
        if len(finished) == 1:
            self._soon(self.flush)
        return self.is_open

    def finish_all(self, commands: bytes, count: int) -> bool:
        """Several messages are done; ``commands`` are their FINs."""
        if not self.is_open:
            return False
        if self._backoff.level:
            self._outcome(Outcome.SUCCESS)
        return self._settle(commands, count)

    def requeue(
        self, messages: Iterable[tuple[bytes, int]], delay: float | None, backoff: bool
    ) -> bool:
        """Deliver these (id, attempts) again, ``delay`` seconds from now.

        None, or anything below 0 as in go-nsq and pynsq, is for ``default_requeue_delay`` times the
        attempts, at most ``max_requeue_delay``.
        """
        if not self.is_open:
            return False
        # go-nsq sends the RDY that follows from an outcome before the answer itself.
        self._outcome(Outcome.FAILURE if backoff else Outcome.NEITHER)
        lines = [
            encode.requeue(identifier, self._delay_ms(delay, attempts))
            for identifier, attempts in messages
        ]
        return self._settle(b"".join(lines), len(lines))

    def give_back(self, identifiers: list[bytes]) -> None:
        """Requeue at once what nobody has seen, which is nobody's failure."""
        if identifiers:
            lines = [encode.requeue(identifier, 0) for identifier in identifiers]
            self._settle(b"".join(lines), len(lines))

    def touch(self, identifiers: Iterable[bytes]) -> bool:
        """Restart the time-outs of these."""
        # FINs first, in the order in which the program answered.
        self.flush()
        return self.is_open and self._sent(b"".join(map(encode.touch, identifiers)))

    def set_ready(self, count: int) -> None:
        """RDY, after what was answered before."""
        self.flush()
        try:
            self.link.set_ready(count)
        except NotConnected:
            self.is_open = False

    def flush(self) -> None:
        """Send what was gathered."""
        finished = self._finished
        if finished:
            commands, count = encode.finish_all(finished), len(finished)
            finished.clear()
            self.link.settled(count)
            self._sent(commands)

    def close(self) -> None:
        """The connection is gone, or about to go: no more answers."""
        self.is_open = False
        self._finished.clear()

    def _settle(self, commands: bytes, count: int) -> bool:
        self.flush()
        self.link.settled(count)
        return self._sent(commands)

    def _sent(self, commands: bytes) -> bool:
        self.is_open = self.link.answer(commands) and self.is_open
        return self.is_open

    def _delay_ms(self, delay: float | None, attempts: int) -> int:
        if delay is None or delay < 0:  # a node ends a connection that asks for less than nothing
            # go-nsq's and pynsq's rule for a requeue without a delay; pynsq has no limit for it.
            config = self._config
            delay = min(config.default_requeue_delay * attempts, config.max_requeue_delay)
        return int(delay * _MILLISECONDS)
