"""Totals of messages stored and delivered by a broker, and current rates (RocketMQ spec 2.5).

Plain numbers that are added to once for a batch; ``Totals.tick`` samples them every second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from datetime import date, datetime
from math import ceil
from typing import Final, NamedTuple

from penstock.core.clock import Clock
from penstock.core.units import MILLISECOND, MINUTE, SECOND

SPANS_S: Final = (10, 60, 600)
"""The spans, in seconds up to now, over which rates are taken."""

_SLOWEST_MS: Final = 10_000
_BOUNDS_MS: Final = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, _SLOWEST_MS)
_BOUND_NAMES: Final = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]",
    "[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip


class Sample(NamedTuple):
    """The totals at a moment (monotonic ns)."""

    at_ns: int
    put: int
    found: int
    missed: int
    got: int


class Day(NamedTuple):
    """The numbers of messages that had been put and got when a day began."""

    put: int = 0
    got: int = 0


class Totals:
    """Since the start of the broker; ``found`` and ``missed`` count pulls, the others messages."""

    def __init__(self, clock: Clock) -> None:
        self.put_messages = 0
        self.put_bytes = 0
        self.put_failures = 0
        self.got_messages = 0
        self.found = 0
        self.missed = 0
        self.slowest_put_ms = 0
        self.slowest_get_ms = 0
        self.started_ms = clock.wall_ns() // MILLISECOND
        self.today = Day()
        self.yesterday = Day()
        self._clock = clock
        self._date = self._local_date()
        # One a second, at both ends of the longest span.
        self._samples = deque((self._sample(),), maxlen=SPANS_S[-1] + 1)
        self._put_times: dict[int, int] = {}
        self._last_put_times: dict[int, int] = {}
        self._turned_ns = clock.monotonic_ns()

    def put_took(self, ms: int) -> None:
        """Count one put that was timed, by the time it took."""
        if ms > self.slowest_put_ms:
            self.slowest_put_ms = ms
        ms = min(ms, _SLOWEST_MS)
        self._put_times[ms] = self._put_times.get(ms, 0) + 1

    def tick(self) -> None:
        """Sample; to be called every second."""
        sample = self._sample()
        self._samples.append(sample)
        if sample.at_ns - self._turned_ns >= MINUTE:
            self._turned_ns = sample.at_ns
            self._last_put_times, self._put_times = self._put_times, {}
        today = self._local_date()
        # A clock that is set back does not begin a day again.
        if today > self._date:
            self._date = today
            self.yesterday, self.today = self.today, Day(self.put_messages, self.got_messages)

    def _sample(self) -> Sample:
        return Sample(
            self._clock.monotonic_ns(),
            self.put_messages,
            self.found,
            self.missed,
            self.got_messages,
        )

    def _local_date(self) -> date:
        return datetime.fromtimestamp(self._clock.wall_ns() // SECOND).date()

    # --- reading -------------------------------------------------------------------------------

    @property
    def average_put_bytes(self) -> float:
        return self.put_bytes / self.put_messages if self.put_messages else 0.0

    def rates(self, count: Callable[[Sample], int]) -> str:
        """The growth of ``count`` per second, over each of the spans, as ``a b c``."""
        return " ".join(str(self._rate(count, span)) for span in SPANS_S)

    def _rate(self, count: Callable[[Sample], int], seconds: int) -> float:
        last = self._samples[-1]
        first = self._samples[max(0, len(self._samples) - 1 - seconds)]
        elapsed = last.at_ns - first.at_ns
        return (count(last) - count(first)) * SECOND / elapsed if elapsed else 0.0

    def put_time_quantile(self, share: float) -> float:
        """The time in ms that this share of the puts in the last whole minute kept within."""
        times = sorted(self._last_put_times.items())
        rank = ceil(share * sum(count for _, count in times))
        for ms, count in times:
            rank -= count
            if rank <= 0:
                return float(ms)
        return 0.0

    def put_time_distribution(self) -> str:
        """Counts of puts in the last whole minute by time taken: ``[0~10ms]:5 [10~50ms]:0 …``."""
        counts = [0] * len(_BOUND_NAMES)
        for ms, count in self._last_put_times.items():
            counts[bisect_right(_BOUNDS_MS, ms)] += count
        return "".join(f"{name}:{n} " for name, n in zip(_BOUND_NAMES, counts, strict=True))
