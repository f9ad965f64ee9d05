"""Moving RDY about when there is less of it than connections (NSQ spec 7.4).

With ``max_in_flight`` below the number of connections, or in a backoff, where one message at a time
tests the waters, some connections have RDY 0, and their nodes may be those with messages. So from
time to time who is idle, or has had RDY for long, hands it on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from penstock.core.units import SECOND
from penstock.nsq.client.config import Config
from penstock.nsq.client.consume.ready import Key, Peer, Table


class Redistribution(Generic[Key]):
    """The rule by which connections hand on their RDY. Times in nanoseconds.

    ``in_flight`` tells how many messages of a connection are unanswered: one that has some is
    waiting for its consumer, not idle.
    """

    def __init__(self, config: Config, in_flight: Callable[[Key], int]) -> None:
        self.due: int | None = None
        """The time to look again; None while there is enough for all."""
        self._interval = int(config.rdy_redistribute_interval * SECOND)
        self._idle = int(config.low_rdy_idle_timeout * SECOND)
        self._held = int(config.low_rdy_timeout * SECOND)
        self._in_flight = in_flight

    def watch(self, is_needed: bool, now: int) -> None:
        """Begin to look, or stop."""
        if not is_needed:
            self.due = None
        elif self.due is None:
            self.due = now + self._interval

    def run(self, table: Table[Key], allowed: int, now: int) -> int:
        """Hand on, with at most ``allowed`` for all; how many connections had to give."""
        self.due = now + self._interval
        givers = [peer for peer in table.peers.values() if peer.ready and self._is_over(peer, now)]
        for peer in givers:
            table.give(peer, 0, now)
        table.spread(allowed - table.total, now, frozenset(peer.key for peer in givers))
        return len(givers)

    def _is_over(self, peer: Peer[Key], now: int) -> bool:
        if now - peer.since > self._held:
            return True
        silent = now - max(peer.heard, peer.since) > self._idle
        return silent and not self._in_flight(peer.key)
