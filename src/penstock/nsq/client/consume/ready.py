"""The RDY of each connection: how a consumer shares ``max_in_flight`` among its connections.

The sum over all connections is never above ``max_in_flight``, and no connection gets more than its
node allows. Whoever gets less is told first, so that this holds at every moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.core.chance import Chance
from penstock.core.units import SECOND
from penstock.nsq.client.config import Config

Key = TypeVar("Key")

Orders = list[tuple[Key, int]]
"""RDY commands to send, in this order."""


class Peer(Generic[Key]):
    """A connection as the core knows it; times in nanoseconds."""

    __slots__ = ("heard", "key", "most", "ready", "since")

    def __init__(self, key: Key, most: int, now: int) -> None:
        self.key = key
        self.most = most
        """The most RDY that the node allows."""
        self.ready = 0
        self.since = now
        """The time at which ``ready`` was set."""
        self.heard = now
        """The time at which messages came last."""


class Table(Generic[Key]):
    """All connections with the RDY of each. What changes is added to ``orders``."""

    def __init__(self, max_in_flight: int, chance: Chance) -> None:
        self.max_in_flight = max_in_flight
        self.orders: Orders[Key] = []
        self.peers: dict[Key, Peer[Key]] = {}
        self.total = 0
        """The sum of all RDYs."""
        self._chance = chance

    @property
    def is_scarce(self) -> bool:
        """True if not every connection can have a message."""
        return len(self.peers) > self.max_in_flight > 0

    def add(self, key: Key, most: int, now: int) -> Peer[Key]:
        """A connection more, with RDY 0."""
        peer = self.peers[key] = Peer(key, most, now)
        return peer

    def remove(self, key: Key) -> None:
        """A connection less, if it is known."""
        peer = self.peers.pop(key, None)
        if peer is not None:
            self.total -= peer.ready

    def give(self, peer: Peer[Key], count: int, now: int) -> None:
        """Set a connection's RDY within its bounds."""
        left = self.max_in_flight - self.total + peer.ready
        # ``left`` is negative where ``max_in_flight`` was just lowered below what is given out.
        count = max(0, min(count, peer.most, left))
        if count != peer.ready:
            self.total += count - peer.ready
            peer.ready = count
            peer.since = now
            self.orders.append((peer.key, count))

    def silence(self, now: int) -> None:
        """RDY 0 for all."""
        for peer in self.peers.values():
            self.give(peer, 0, now)

    def share(self, now: int) -> None:
        """Even shares for all; one each for as many as possible when there is not enough."""
        peers = list(self.peers.values())
        if self.is_scarce:
            counts = [min(1, peer.ready) for peer in peers]
        else:
            counts = shares(self.max_in_flight, len(peers))
        wanted = list(zip(peers, counts, strict=True))
        for peer, count in wanted:
            if count < peer.ready:
                self.give(peer, count, now)
        if not self.is_scarce:
            for peer, count in wanted:
                self.give(peer, count, now)
            return
        holders = [peer for peer in peers if peer.ready]
        for peer in self.pick(holders, self.total - self.max_in_flight):
            self.give(peer, 0, now)
        self.spread(self.max_in_flight - self.total, now)

    def spread(self, count: int, now: int, last: frozenset[Key] = frozenset()) -> None:
        """RDY 1 for ``count`` connections that have none, those of ``last`` only if it must be."""
        idle = [peer for peer in self.peers.values() if not peer.ready]
        fresh = self.pick([peer for peer in idle if peer.key not in last], count)
        rest = self.pick([peer for peer in idle if peer.key in last], count - len(fresh))
        for peer in fresh + rest:
            self.give(peer, 1, now)

    def pick(self, peers: list[Peer[Key]], count: int) -> list[Peer[Key]]:
        """Pick ``count`` of them at random, or all if there are no more."""
        chosen: list[Peer[Key]] = []
        while peers and len(chosen) < count:
            chosen.append(peers.pop(self._chance.below(len(peers))))
        return chosen

    def take_orders(self) -> Orders[Key]:
        """The changes since the last time."""
        orders, self.orders = self.orders, []
        return orders


def shares(max_in_flight: int, connections: int) -> list[int]:
    """The RDY of each connection: even, the remainder to the first, all ``max_in_flight``."""
    if not connections:
        return []
    least, more = divmod(max_in_flight, connections)
    return [least + (index < more) for index in range(connections)]


class Redistribution(Generic[Key]):
    """The rule by which connections hand on their RDY (NSQ spec 7.4). Times in nanoseconds.

    With ``max_in_flight`` below the number of connections, or in a backoff, where one message at a
    time tests the waters, some connections have RDY 0, and their nodes may be those with messages.
    So from time to time who is idle, or has had RDY for long, hands it on.

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
