"""End-to-end latencies of several nodes as one (NSQ spec 5.3, e2e aggregate).

A node tells percentiles as ``{"quantile": 0.99, "value": 1234}``. Here they are objects whose keys
come in the order in which Go sorts them: average, count, max, min, quantile, value.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

Number = int | float


class Percentile(Struct):
    """One percentile in nanoseconds, of one node (with ``value``) or of several."""

    average: Number = 0
    count: int = 0
    max: Number = 0
    min: Number = 0
    quantile: Number = 0
    value: Number | UnsetType = UNSET


class Latency(Struct):
    """``host`` is ``*`` in sums over nodes. An estimate: percentiles cannot be averaged, only
    shown.
    """

    count: int = 0
    percentiles: list[Percentile] | None = None
    topic: str = ""
    channel: str = ""
    host: str = ""

    def settle(self) -> None:
        """Complete what a node sent: every number of its percentiles becomes its value."""
        self.percentiles = self.percentiles or None
        for each in self.percentiles or ():
            value = whole(0 if each.value is UNSET else each.value)
            each.value = each.average = each.max = each.min = value
            each.quantile = whole(each.quantile)
            each.count = self.count


def merged(parts: list[Latency | None], topic: str, channel: str = "") -> Latency:
    """The latencies of several nodes as one; averages weigh by count. None is a node without."""
    total = Latency(topic=topic, channel=channel, host="*")
    found: dict[Number, Percentile] = {}
    for part in parts:
        if part is None:
            continue
        total.count += part.count
        for each in part.percentiles or ():
            known = found.get(each.quantile)
            if known is None:
                found[each.quantile] = Percentile(
                    each.average, each.count, each.max, each.min, each.quantile
                )
            else:
                _add(known, each)
    total.percentiles = list(found.values()) or None
    return total


def _add(total: Percentile, part: Percentile) -> None:
    total.max = max(total.max, part.max)
    # Go's nsqadmin takes the larger one, by a slip (NSQ spec 9).
    total.min = min(total.min, part.min)
    total.count += part.count
    if total.count:
        total.average = whole(
            total.average + (part.average - total.average) * part.count / total.count
        )
    else:
        total.average = 0


def whole(number: Number) -> Number:
    """A float without a fraction as an integer: Go writes 1.0 as 1."""
    return int(number) if isinstance(number, float) and number.is_integer() else number
