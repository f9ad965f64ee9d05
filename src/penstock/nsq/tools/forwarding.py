"""The common parts of nsq_to_http and nsq_to_nsq: the choice of a host, and timing reports.

A report is a line after each given number of messages (NSQ spec 6.5):

    [aggregate]: finished 250 - 99th: 1.23ms - 95th: 1.00ms - avg: 0.80ms

Durations are whole nanoseconds; messages that travelled together share one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.chance import Chance, SystemChance
from penstock.core.clock import Clock
from penstock.core.settings.options import option
from penstock.nsq.client.hosts import MODES, Hosts, hosts_of
from penstock.nsq.tools.errors import say

ROUND_ROBIN, _, EPSILON_GREEDY = MODES
ACCURATE_FROM = 100
"""The values below which a 99th percentile means little, and a warning says so."""
_MILLISECOND = 1_000_000


def mode_option() -> Any:
    """The declaration of --mode."""
    return option(
        "hostpool",
        "the upstream request mode options: round-robin, hostpool (default), epsilon-greedy",
    )


def upstream_hosts(
    mode: str, addresses: Sequence[str], clock: Clock, chance: Chance | None = None
) -> Hosts:
    """The choice among the addresses. Upstream counts up before it looks, so its round robin begins
    with the second one.
    """
    first = 1 if mode == ROUND_ROBIN else 0
    return hosts_of(mode, addresses, clock, chance or SystemChance(), first)


class Report:
    """Lines about the time that forwarding took: ``of`` an address, where there are several, and
    of ``all`` together. A line for every ``every`` messages, none for 0.
    """

    def __init__(self, addresses: Sequence[str], every: int) -> None:
        each = every if len(addresses) > 1 else 0
        self.of = {address: Timings(f"[{address}]:", each, say) for address in addresses}
        self.all = Timings("[aggregate]:", every, say)


class Timings:
    """The last ``every`` durations, and a line about them each time that as many have come.

    As upstream, the first line comes one message late: it takes one more than ``every`` to see that
    the round is full.
    """

    def __init__(self, label: str, every: int, tell: Callable[[str], None]) -> None:
        """``label`` begins each line; ``every`` of 0, or less, means no lines."""
        self._label = label
        self._every = max(every, 0)
        self._tell = tell
        self._durations: list[int] = []
        self._next = 0
        if 0 < self._every < ACCURATE_FROM:
            tell(
                f"Warning: use more than {ACCURATE_FROM} status values for accurate percentiles"
                f" (configured with {every})"
            )

    def add(self, duration: int, count: int = 1) -> None:
        """``count`` messages more, each of which took ``duration`` nanoseconds."""
        if not self._every:
            return
        while count:
            if self._next == self._every:
                self._next = 0
                self._put(duration, 1)
                self._tell(summary(self._label, self._durations))
                count -= 1
            taken = min(count, self._every - self._next)
            self._put(duration, taken)
            count -= taken

    def _put(self, duration: int, count: int) -> None:
        self._durations[self._next : self._next + count] = [duration] * count
        self._next += count


def summary(label: str, durations: Sequence[int]) -> str:
    """The line about these durations (at least one)."""
    ranked = sorted(durations)
    high, higher = percentile(95, ranked), percentile(99, ranked)
    average = sum(ranked) // len(ranked)
    return (
        f"{label} finished {len(ranked)} - 99th: {_milliseconds(higher)}"
        f" - 95th: {_milliseconds(high)} - avg: {_milliseconds(average)}"
    )


def percentile(percent: float, ranked: Sequence[int]) -> int:
    """Upstream's choice: the value above the rank, rounded up, or the largest."""
    index = math.ceil(percent / 100 * len(ranked) + 0.5)
    return ranked[min(index, len(ranked) - 1)]


def _milliseconds(duration: int) -> str:
    return f"{duration / _MILLISECOND:.2f}ms"
