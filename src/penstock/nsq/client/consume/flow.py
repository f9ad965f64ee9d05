"""The flow of messages to one consumer: RDY, backoff and redistribution together, without I/O.

It is told what happens, and each call gives back the RDY commands that follow, to be sent in their
order and before anything else; ``deadline`` says when to call ``tick`` at the latest. Keys stand
for connections.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic

from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.units import format_duration
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.backoff import Backoff, Step
from penstock.nsq.client.consume.ready import Key, Orders, Redistribution, Table

Tell = Callable[..., None]
"""``events.tell`` with the fields that all events of a consumer have."""


class Flow(Generic[Key]):
    """Control of the number of messages that each connection may send; made for one consumer."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        chance: Chance,
        *,
        in_flight: Callable[[Key], int],
        tell: Tell,
    ) -> None:
        self.backoff = Backoff(config, chance)
        self._table: Table[Key] = Table(config.max_in_flight, chance)
        self._redistribution: Redistribution[Key] = Redistribution(config, in_flight)
        self._clock = clock
        self._tell = tell
        self._closed = False

    @property
    def max_in_flight(self) -> int:
        """The RDY that all connections may have together."""
        return self._table.max_in_flight

    @property
    def total(self) -> int:
        """The RDY that is given, over all connections."""
        return self._table.total

    @property
    def deadline(self) -> int | None:
        """The time at which something is due next, in nanoseconds of the clock."""
        if self._closed:
            return None
        waters, move = self.backoff.until, self._redistribution.due
        if waters is None or move is None:
            return move if waters is None else waters
        return min(waters, move)

    def ready(self, key: Key) -> int:
        """The RDY of a connection."""
        peer = self._table.peers.get(key)
        return 0 if peer is None else peer.ready

    # Connections

    def connected(self, key: Key, max_rdy_count: int) -> Orders[Key]:
        """A connection more; the others give it some of theirs."""
        now = self._clock.monotonic_ns()
        self._table.add(key, max_rdy_count, now)
        return self._settle(now)

    def lost(self, key: Key) -> Orders[Key]:
        """A connection less; the others share what it had."""
        self._table.remove(key)
        return self._settle(self._clock.monotonic_ns())

    def came(self, key: Key) -> None:
        """Messages came over the connection, any number."""
        peer = self._table.peers.get(key)
        if peer is not None:
            peer.heard = self._clock.monotonic_ns()

    def set_max_in_flight(self, count: int) -> Orders[Key]:
        """Another bound from now on; 0 pauses."""
        self._table.max_in_flight = count
        return self._settle(self._clock.monotonic_ns())

    def close(self) -> None:
        """Send no RDY any more."""
        self._closed = True

    # Outcomes

    def succeeded(self) -> Orders[Key]:
        """One message, or several at once, were finished."""
        now = self._clock.monotonic_ns()
        return self._after(self.backoff.succeeded(now), now)

    def failed(self) -> Orders[Key]:
        """Messages were requeued, as something is wrong."""
        now = self._clock.monotonic_ns()
        return self._after(self.backoff.failed(now), now)

    def continued(self) -> Orders[Key]:
        """Messages were requeued, but not because something is wrong."""
        now = self._clock.monotonic_ns()
        return self._after(self.backoff.continued(now), now)

    def tick(self) -> Orders[Key]:
        """The orders that are due."""
        now = self._clock.monotonic_ns()
        if self._closed:
            return []
        if self.backoff.is_due(now):
            self._test_the_waters(now)
        due = self._redistribution.due
        if due is not None and now >= due:
            self._redistribute(now)
        return self._orders(now)

    # Inside

    def _after(self, step: Step, now: int) -> Orders[Key]:
        if step is Step.NONE or self._closed:
            return []
        backoff = self.backoff
        if step is Step.RESUME:
            self._table.share(now)
            most = max((peer.ready for peer in self._table.peers.values()), default=0)
            text = f"exiting backoff, returning all to RDY {most}"
            self._tell(logging.WARNING, "resume", text, ready=most)
        else:
            self._table.silence(now)
            period = format_duration(backoff.period)
            text = f"backing off for {period} (backoff level {backoff.level}), setting all to RDY 0"
            fields = {"backoff_level": backoff.level, "period_ns": backoff.period}
            self._tell(logging.WARNING, "backoff", text, **fields)
        return self._orders(now)

    def _settle(self, now: int) -> Orders[Key]:
        """After a change of connections or of the bound."""
        table, backoff = self._table, self.backoff
        if self._closed:
            return []
        if not backoff.is_on:
            table.share(now)
        elif backoff.until is None and table.max_in_flight:
            table.spread(1 - table.total, now)  # somebody has to test the waters
        else:
            table.silence(now)
        return self._orders(now)

    def _test_the_waters(self, now: int) -> None:
        """The period is over: one connection, any, gets one message."""
        table = self._table
        chosen = table.pick(list(table.peers.values()), 1)
        if not chosen:
            self._tell(logging.WARNING, "waters", "no connection available to resume")
            self._tell(logging.WARNING, "backoff", "backing off for 1s")
            self.backoff.wait_on(now)
            return
        self.backoff.test_the_waters()
        if not table.max_in_flight:
            return  # paused; whoever ends the pause lets one through
        table.give(chosen[0], 1, now)
        text = "backoff timeout expired, sending RDY 1"
        self._tell(logging.WARNING, "waters", text, address=self._address(chosen[0].key))

    def _redistribute(self, now: int) -> None:
        if self.backoff.until is not None:
            # In a period all have RDY 0, so there is nothing to hand on (NSQ spec 7.4).
            self._redistribution.due = self.backoff.until
            return
        allowed = 1 if self.backoff.is_on else self._table.max_in_flight
        moved = self._redistribution.run(self._table, min(allowed, self.max_in_flight), now)
        if moved:
            self._tell(logging.DEBUG, "redistribute", f"redistributing RDY of {moved} connections")

    def _orders(self, now: int) -> Orders[Key]:
        table = self._table
        in_turns = self.backoff.is_on and len(table.peers) > 1 and table.max_in_flight > 0
        self._redistribution.watch(table.is_scarce or in_turns, now)
        return table.take_orders()

    @staticmethod
    def _address(key: Key) -> str:
        return str(getattr(key, "address", key))
