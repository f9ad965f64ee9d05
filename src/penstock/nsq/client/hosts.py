"""The choice among several hosts: in turn, in turn among the living, or the quicker more often.

    hosts = hosts_of("hostpool", ["a:4150", "b:4150"], clock, chance)
    turn = hosts.take()
    ...turn.address...
    turn.succeeded()          # or turn.failed()

No I/O: the clock and the dice are handed in. The three modes, and their numbers, are those of
``nsq_to_http`` and ``nsq_to_nsq`` (NSQ spec 6.5).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from penstock.core.chance import Chance
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.units import MINUTE, SECOND

MODES: Final = ("round-robin", "hostpool", "epsilon-greedy")

RETRY_DELAY: Final = 30 * SECOND
"""A dead host is tried again after this time, then after twice as long, and so on."""
RETRY_DELAY_MAX: Final = 900 * SECOND

EPSILON: Final = 0.3
"""The part of the choices that explores, to begin with."""
EPSILON_MIN: Final = 0.01
EPSILON_DECAY: Final = 0.9
"""The factor by which an exploration reduces that part."""
BUCKETS: Final = 120
BUCKET: Final = 5 * MINUTE // BUCKETS


class Host:
    """One address and what is known of it; times in nanoseconds of the monotonic clock."""

    __slots__ = ("address", "is_dead", "retry_at", "retry_delay", "times")

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_dead = False
        self.retry_at = 0
        self.retry_delay = 0
        self.times = ResponseTimes()

    def die(self, now: int) -> None:
        """A request has failed. One that was dead already keeps the time of its next trial."""
        # A lost connection fails all requests on it at once: they count as one failure.
        if not self.is_dead:
            self.is_dead = True
            self.retry_delay = RETRY_DELAY
            self.retry_at = now + RETRY_DELAY

    def may_be_tried(self, now: int) -> bool:
        return not self.is_dead or self.retry_at <= now

    def try_again(self, now: int) -> None:
        """Note that a dead host is about to be asked; if still dead, it rests for longer."""
        if self.is_dead:
            self.retry_delay = min(2 * self.retry_delay, RETRY_DELAY_MAX)
            self.retry_at = now + self.retry_delay


class ResponseTimes:
    """The response times of the last five minutes in buckets, of which the newer weigh more.

    Everything but the newest bucket changes when a bucket is over, and is added up then.
    """

    __slots__ = ("_buckets", "_count", "_last", "_older", "_sum")

    def __init__(self) -> None:
        self._buckets = [0.0] * (BUCKETS - 1)  # averages, oldest first; 0 for one without requests
        self._older = 0.0
        self._last = 0.0
        self._sum = 0.0
        self._count = 0

    def add(self, ns: int) -> None:
        self._sum += ns
        self._count += 1

    def average(self) -> float:
        """The weighted average, in units that only comparing makes sense of; 0 for no requests."""
        return self._older + (self._sum / self._count if self._count else self._last)

    def turn(self, steps: int) -> None:
        """Move on by ``steps`` buckets."""
        for _ in range(min(steps, BUCKETS)):
            self._buckets.append(self._sum / self._count if self._count else 0.0)
            del self._buckets[0]
            self._sum, self._count = 0.0, 0
        self._older, self._last = 0.0, 0.0
        for place, value in enumerate(self._buckets, 1):
            self._last = value or self._last  # a bucket without requests counts as the one before
            self._older += self._last * place / BUCKETS


class Turn:
    """One use of a host; its outcome is told once."""

    __slots__ = ("_host", "_owner", "_started", "address")

    def __init__(self, owner: Hosts, host: Host, started: int) -> None:
        self.address = host.address
        self._owner = owner
        self._host = host
        self._started = started

    def succeeded(self) -> None:
        self._host.is_dead = False
        self._owner.took(self._host, self._started)

    def failed(self) -> None:
        self._owner.lost(self._host)


class Hosts:
    """Round robin: each host in turn, whatever becomes of it.

    ``first`` is the index of the first one used: 1 where ``nsq_to_http`` and ``nsq_to_nsq`` are to
    be followed, which count up before they look.
    """

    def __init__(
        self, addresses: Sequence[str], clock: Clock, chance: Chance, first: int = 0
    ) -> None:
        if not addresses:
            raise ConfigError("no address is given")
        self.hosts = tuple(Host(address) for address in addresses)
        self._clock = clock
        self._chance = chance
        self._next = first

    def take(self, tried: Collection[str] = ()) -> Turn:
        """The host to use now; none of the addresses in ``tried`` while there are others."""
        host = self._choose(tried)
        return Turn(self, host, self._clock.monotonic_ns())

    def took(self, host: Host, started: int) -> None:
        """A turn that began then has succeeded."""

    def lost(self, host: Host) -> None:
        """A turn has failed."""
        host.die(self._clock.monotonic_ns())

    def _choose(self, tried: Collection[str]) -> Host:
        return self._in_turn(tried, self.hosts) or self._at(self._next)

    def _in_turn(self, tried: Collection[str], usable: Sequence[Host]) -> Host | None:
        """The next of the usable hosts that were not tried."""
        for ahead in range(len(self.hosts)):
            host = self.hosts[(self._next + ahead) % len(self.hosts)]
            if host in usable and host.address not in tried:
                return self._at(self._next + ahead)
        return None

    def _at(self, index: int) -> Host:
        index %= len(self.hosts)
        self._next = index + 1
        return self.hosts[index]


class HostPool(Hosts):
    """Round robin among the hosts that live; a dead one is tried again now and then.

    When all are dead, all live again.
    """

    def _choose(self, tried: Collection[str]) -> Host:
        now = self._clock.monotonic_ns()
        living = [host for host in self.hosts if host.may_be_tried(now)]
        host = self._in_turn(tried, living)
        if host is not None:
            host.try_again(now)
            return host
        untried = [host for host in self.hosts if host.address not in tried]
        for host in self.hosts:
            host.is_dead = False
        return self._at(self.hosts.index(untried[0]) if untried else 0)


class EpsilonGreedy(HostPool):
    """The quicker a host has answered lately, the more often it is chosen.

    A part of the choices, epsilon, explores: those go round among the living.
    """

    def __init__(
        self, addresses: Sequence[str], clock: Clock, chance: Chance, first: int = 0
    ) -> None:
        super().__init__(addresses, clock, chance, first)
        self.epsilon = EPSILON
        self._bucket_began = clock.monotonic_ns()

    def took(self, host: Host, started: int) -> None:
        self._turn_buckets()
        host.times.add(self._clock.monotonic_ns() - started)

    def _choose(self, tried: Collection[str]) -> Host:
        self._turn_buckets()
        if self._chance.fraction() < self.epsilon:
            self.epsilon = max(self.epsilon * EPSILON_DECAY, EPSILON_MIN)
            return super()._choose(tried)
        # Before the first answers there are no times to weigh.
        return self._weighted(tried) or super()._choose(tried)

    def _weighted(self, tried: Collection[str]) -> Host | None:
        now = self._clock.monotonic_ns()
        scores = [
            (host, 1 / average)
            for host in self.hosts
            if host.may_be_tried(now)
            and host.address not in tried
            and (average := host.times.average()) > 0
        ]
        left = self._chance.fraction() * sum(score for _, score in scores)
        for host, score in scores:
            left -= score
            if left <= 0:
                host.try_again(now)
                return host
        return None

    def _turn_buckets(self) -> None:
        over = (self._clock.monotonic_ns() - self._bucket_began) // BUCKET
        if over:
            self._bucket_began += over * BUCKET
            for host in self.hosts:
                host.times.turn(over)


_BY_MODE: Final = dict(zip(MODES, (Hosts, HostPool, EpsilonGreedy), strict=True))


def hosts_of(
    mode: str, addresses: Sequence[str], clock: Clock, chance: Chance, first: int = 0
) -> Hosts:
    """The choice among addresses by one of ``MODES``. Raises ConfigError.

    An address that is given twice gets twice the turns.
    """
    if mode not in _BY_MODE:
        raise ConfigError(f"unknown mode {mode!r}; there are {', '.join(MODES)}")
    return _BY_MODE[mode](addresses, clock, chance, first)
