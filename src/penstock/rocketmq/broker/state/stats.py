"""A broker's statistics by topic and group, over a minute, hour and day (RocketMQ spec 2.4).

Counting is a look-up and a few additions, once for a batch. ``Stats.tick`` samples all counters
every 10 seconds, 10 minutes and hour; a window is what lies between its oldest and newest sample.

Keys are those of the Java broker: a topic, ``topic@group``, ``queueId@topic`` for the time that
puts took, the cluster for what concerns the whole broker. Messages count where they are stored,
whichever protocol they came by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from penstock.core.clock import Clock
from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from penstock.rocketmq.broker.state.totals import Totals
from penstock.storage.batch import Batch

KEYS_MAX: Final = 10_000
"""The number of keys that one statistic tells apart; further ones count in the totals only."""
TIMED_EVERY: Final = 16
"""One send, and one pull, in this many has its time taken."""

_Sample = tuple[int, int, int]
_NOTHING: Final[_Sample] = (0, 0, 0)
_AMOUNT, _NBYTES = 1, 2


class _Window(NamedTuple):
    name: str
    period_ns: int
    length: int


_WINDOWS: Final = (
    # Samples at both ends: seven of them are six periods apart.
    _Window("statsMinute", 10 * SECOND, 7),
    _Window("statsHour", 10 * MINUTE, 7),
    _Window("statsDay", HOUR, 25),
)
_DAY: Final = 2


class Counter:
    """Counts of events and their amounts: messages or milliseconds, and bytes."""

    __slots__ = ("amount", "nbytes", "samples", "times")

    def __init__(self) -> None:
        self.times = 0
        self.amount = 0
        self.nbytes = 0
        self.samples: tuple[list[_Sample], ...] = ([], [], [])

    def add(self, amount: int, nbytes: int = 0) -> None:
        """Count one more event and its amount."""
        self.times += 1
        self.amount += amount
        self.nbytes += nbytes

    def sample(self, window: int) -> None:
        """Note how much it is now."""
        samples = self.samples[window]
        now = (self.times, self.amount, self.nbytes)
        # A key that is new has come since the last sample, at which there were none.
        if not samples:
            samples.append(_NOTHING)
        # The same tuple again: a key that is idle takes no memory for its windows.
        samples.append(samples[-1] if samples[-1] == now else now)
        if len(samples) > _WINDOWS[window].length:
            del samples[0]

    @property
    def is_idle(self) -> bool:
        """True if nothing has happened for a day."""
        day = self.samples[_DAY]
        return len(day) == _WINDOWS[_DAY].length and day[0] == day[-1]


class Stats:
    """All counters of a broker."""

    def __init__(self, cluster: str, clock: Clock) -> None:
        self.totals = Totals(clock)
        self._clock = clock
        self._puts: dict[str, Counter] = {}
        self._put_times: dict[str, Counter] = {}
        self._gets: dict[str, Counter] = {}
        self._get_times: dict[str, Counter] = {}
        self._returns: dict[str, Counter] = {}
        self._dead: dict[str, Counter] = {}
        self._put, self._got = Counter(), Counter()
        self._of_groups = (self._gets, self._get_times, self._returns, self._dead)
        self._tables = (self._puts, self._put_times, *self._of_groups)
        self._named: Final = {
            "TOPIC_PUT_NUMS": (self._puts, _AMOUNT),
            "TOPIC_PUT_SIZE": (self._puts, _NBYTES),
            "TOPIC_PUT_LATENCY": (self._put_times, _AMOUNT),
            "GROUP_GET_NUMS": (self._gets, _AMOUNT),
            "GROUP_GET_SIZE": (self._gets, _NBYTES),
            "GROUP_GET_LATENCY": (self._get_times, _AMOUNT),
            "SNDBCK_PUT_NUMS": (self._returns, _AMOUNT),
            "DLQ_PUT_NUMS": (self._dead, _AMOUNT),
            "BROKER_PUT_NUMS": ({cluster: self._put}, _AMOUNT),
            "BROKER_GET_NUMS": ({cluster: self._got}, _AMOUNT),
        }
        self._until_timed_put = self._until_timed_get = 1
        self._sampled_ns: tuple[list[int], ...] = ([], [], [])

    # --- counting ------------------------------------------------------------------------------

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        """Batches were stored, from whatever clients: a listener of the store."""
        if len(batches) == 1:
            messages, nbytes = batches[0].count, len(batches[0].frames) or batches[0].nbytes
        else:
            messages = batches[-1].next_offset - batches[0].first_offset
            nbytes = sum([len(batch.frames) or batch.nbytes for batch in batches])
        self.put(topic, messages, nbytes)

    def put(self, topic: str, messages: int, nbytes: int) -> None:
        """Messages were stored with one append."""
        counter = self._puts.get(topic) or self._counter(self._puts, topic)
        counter.add(messages, nbytes)
        self._put.amount += messages
        self.totals.put_messages += messages
        self.totals.put_bytes += nbytes

    def put_begins(self) -> int:
        """Begin a put: its start (monotonic ns) if it is one of those that are timed, else 0."""
        self._until_timed_put -= 1
        if self._until_timed_put:
            return 0
        self._until_timed_put = TIMED_EVERY
        return self._clock.monotonic_ns()

    def put_ends(self, topic: str, queue: int, began_ns: int) -> None:
        """Note the end of a put that is timed."""
        ms = (self._clock.monotonic_ns() - began_ns) // MILLISECOND
        key = f"{queue}@{topic}"
        self._counter(self._put_times, key).add(ms)
        self.totals.put_took(ms)

    def put_failed(self) -> None:
        """A put could not be stored."""
        self.totals.put_failures += 1

    def got(self, topic: str, group: str, messages: int, nbytes: int) -> None:
        """A pull found messages."""
        key = f"{topic}@{group}"
        counter = self._gets.get(key) or self._counter(self._gets, key)
        counter.add(messages, nbytes)
        self._got.amount += messages
        totals = self.totals
        totals.found += 1
        totals.got_messages += messages

    def missed(self) -> None:
        """A pull found nothing."""
        self.totals.missed += 1

    def get_begins(self) -> int:
        """Begin a read: its start (monotonic ns) if it is one of those that are timed, else 0."""
        self._until_timed_get -= 1
        if self._until_timed_get:
            return 0
        self._until_timed_get = TIMED_EVERY
        return self._clock.monotonic_ns()

    def get_ends(self, topic: str, group: str, began_ns: int) -> None:
        """Count the time that a pull took to read the messages it found."""
        ms = (self._clock.monotonic_ns() - began_ns) // MILLISECOND
        key = f"{topic}@{group}"
        self._counter(self._get_times, key).add(ms)
        self.totals.slowest_get_ms = max(self.totals.slowest_get_ms, ms)

    def sent_back(self, topic: str, group: str) -> None:
        """A consumer wants a message again later."""
        key = f"{topic}@{group}"
        self._counter(self._returns, key).add(1)

    def dead_lettered(self, topic: str, group: str) -> None:
        """A message of a topic became a dead letter of a group."""
        key = f"{topic}@{group}"
        self._counter(self._dead, key).add(1)

    def _counter(self, table: dict[str, Counter], key: str) -> Counter:
        """The counter of a key; one that nobody sees when there are too many."""
        counter = table.get(key)
        if counter is None:
            counter = Counter()
            if len(table) < KEYS_MAX:
                table[key] = counter
        return counter

    def forget_topic(self, topic: str) -> None:
        """Drop what was counted of a topic."""
        start, end = f"{topic}@", f"@{topic}"
        self._puts.pop(topic, None)
        _drop(self._put_times, lambda key, _: key.endswith(end))
        for table in self._of_groups:
            _drop(table, lambda key, _: key.startswith(start))

    def forget_group(self, group: str) -> None:
        """Drop what was counted of a group."""
        end = f"@{group}"
        for table in self._of_groups:
            _drop(table, lambda key, _: key.endswith(end))

    # --- sampling ------------------------------------------------------------------------------

    def tick(self) -> None:
        """Sample what is due; to be called every second."""
        self.totals.tick()
        now = self._clock.monotonic_ns()
        for number, window in enumerate(_WINDOWS):
            sampled = self._sampled_ns[number]
            if sampled and now - sampled[-1] < window.period_ns:
                continue
            if not sampled:
                sampled.append(now - window.period_ns)
            sampled.append(now)
            if len(sampled) > window.length:
                del sampled[0]
            self._put.sample(number)
            self._got.sample(number)
            for table in self._tables:
                for counter in table.values():
                    counter.sample(number)
                if number == _DAY:
                    _drop(table, lambda _, counter: counter.is_idle)

    # --- reading -------------------------------------------------------------------------------

    def view(self, name: str, key: str) -> dict[str, Any] | None:
        """One statistic as BrokerStatsData prints it; None when no statistic has that name."""
        table, part = self._named.get(name, ({}, 0))
        counter = table.get(key)
        if counter is None:
            return None
        return {
            window.name: self._over(counter, number, part) for number, window in enumerate(_WINDOWS)
        }

    def got_per_second(self, topic: str, group: str) -> float:
        """Messages that a group got of a topic each second, over the last minute."""
        counter = self._gets.get(f"{topic}@{group}")
        return self._over(counter, 0, _AMOUNT)["tps"] if counter is not None else 0.0

    def _over(self, counter: Counter, window: int, part: int) -> dict[str, Any]:
        samples = counter.samples[window]
        if not samples:
            return {"avgpt": 0.0, "sum": 0, "tps": 0.0}
        first, last = samples[0], samples[-1]
        sampled = self._sampled_ns[window]
        total, times = last[part] - first[part], last[0] - first[0]
        return {
            "avgpt": total / times if times else 0.0,
            "sum": total,
            "tps": total * SECOND / (sampled[-1] - sampled[-len(samples)]),
        }


def _drop(table: dict[str, Counter], unwanted: Callable[[str, Counter], bool]) -> None:
    for key in [key for key, counter in table.items() if unwanted(key, counter)]:
        del table[key]
