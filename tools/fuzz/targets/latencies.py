"""Quantiles of latencies: any numbers, any weights, collected in windows and merged."""

from __future__ import annotations

import math
import struct
from bisect import bisect_left, bisect_right
from itertools import accumulate

from penstock.core.quantiles import EXACT, RANK_ERROR, Quantiles, Summary

from . import Target

_RUN = struct.Struct(">dfHB")
_NUMBERS_MAX = 20_000
_KEPT_MAX = 2 * EXACT
_WANTED = (0.0, 0.01, 0.5, 0.9, 0.99, 1.0)


def quantiles(data: bytes) -> None:
    """The rank of each answer is as near as promised, and few numbers are kept for it."""
    windows = [Quantiles(), Quantiles(), Quantiles()]
    given: list[tuple[float, int]] = []
    for number, (value, weight) in enumerate(_numbers(data)):
        windows[number % 1000 // 400].add(value, weight)
        given.append((value, weight))
    for window in windows:
        assert len(window._summary) <= _KEPT_MAX
    found = Summary.merged([window.summary() for window in windows])
    given.sort()
    values = [value for value, _ in given]
    until = list(accumulate(weight for _, weight in given))
    assert found.count == (until[-1] if until else 0)
    for q in _WANTED:
        answer = found.quantile(q)
        if not given:
            assert answer == 0
            continue
        low, high = _ranks(values, until, answer)
        wanted = max(1, math.ceil(q * found.count))
        error = max(low - wanted, wanted - high, 0)
        assert error <= RANK_ERROR * found.count, (q, answer, error, found.count)
        assert error == 0 or len(set(values)) > EXACT


def _ranks(values: list[float], until: list[int], answer: float) -> tuple[int, int]:
    """The first and the last rank of a number, which must be one of those given."""
    first, last = bisect_left(values, answer), bisect_right(values, answer)
    assert first < last, f"{answer} was never given"
    return (until[first - 1] if first else 0) + 1, until[last - 1]


def _numbers(data: bytes) -> list[tuple[float, int]]:
    """Runs of numbers, each from a start in steps, so that few bytes make many."""
    found: list[tuple[float, int]] = []
    for start, step, count, weight in _RUN.iter_unpack(data[: len(data) // _RUN.size * _RUN.size]):
        if not math.isfinite(start) or not math.isfinite(step):
            continue  # latencies are differences of clocks
        found += [(start + n * step, weight + 1) for n in range(min(count, 3000))]
        if len(found) > _NUMBERS_MAX:
            break
    return found[:_NUMBERS_MAX]


TARGETS = {
    "quantiles": Target(
        quantiles,
        [
            _RUN.pack(0.0, 1.0, 2500, 0) + _RUN.pack(0.5, 1.0, 2500, 3),
            _RUN.pack(1e6, 0.0, 3000, 255) + _RUN.pack(-5.0, 0.25, 3000, 0),
            _RUN.pack(1e308, 0.0, 5, 1) + _RUN.pack(5e-324, 0.0, 1, 1) + _RUN.pack(0.0, -1.0, 9, 0),
            _RUN.pack(3.0, 0.001, 1024, 0) + _RUN.pack(2.0, 7.0, 1, 250) * 3,
        ],
        [b"\0" * 8, b"\x7f\xef" + b"\xff" * 6, b"\x80" + b"\0" * 7, b"\x04\x00", b"\x04\x01"],
    ),
}
