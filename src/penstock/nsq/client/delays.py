"""Delays of deferred and requeued messages: seconds in a program, milliseconds in commands."""

from __future__ import annotations

from typing import Final

DELAY_MAX: Final = 9_223_372_036.0
"""The longest delay in seconds, 292 years: nodes count nanoseconds in 64 bits."""


def deferral_ms(delay: float) -> int:
    """The delay of a DPUB in milliseconds. Raises ValueError for one below 0, or endless."""
    if not 0 <= delay <= DELAY_MAX:
        raise _impossible(delay)
    return round(delay * 1000)


def requeue_delay(delay: float | None) -> float | None:
    """The delay of a REQ, which None and anything below 0 leave to the options.

    Raises ValueError for an endless one.
    """
    if delay is not None and not delay <= DELAY_MAX:
        raise _impossible(delay)
    return delay


def _impossible(delay: float) -> ValueError:
    return ValueError(f"a delay of {delay} s is not possible")
