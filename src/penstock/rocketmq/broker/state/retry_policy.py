"""The delays between the tries of a message that a group failed to handle (5.x).

See RocketMQ spec 10, ``groupRetryPolicy`` of SubscriptionGroupConfig. A proxy reads the policy for
its clients. Java's broker itself ignores it; ours obeys it for messages that are sent back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.rocketmq.protocol.errors import BodyError

CUSTOMIZED: Final = "CUSTOMIZED"
EXPONENTIAL: Final = "EXPONENTIAL"
_TIMES_MAX: Final = 32
_STEPS_MAX: Final = 1000
_LONG_MAX: Final = (1 << 63) - 1
_GROWTH: Final = {"initial": 5_000, "max": 2 * 3600 * 1000, "multiplier": 2}
"""The fields of growing delays with their defaults; ms but for the last."""
_FIRST_STEP: Final = 2
"""Java's first retry takes the third step, as the first retry has level 3."""


@dataclass(slots=True, frozen=True)
class RetryPolicy:
    """A group's policy; without steps and growth the broker's levels of delay count."""

    kind: str = CUSTOMIZED
    growth: tuple[int, int, int] | None = None
    """The first delay and the longest one in ms, and the factor of each to the one before."""
    steps_ms: tuple[int, ...] | None = None

    def delay_ms(self, times: int) -> int | None:
        """The delay before the next try of a message that was tried again so often; None where
        the broker's levels count.
        """
        # Before the power: a large exponent would make a number of millions of digits.
        times = min(max(0, times), _TIMES_MAX)
        if self.kind == EXPONENTIAL and self.growth is not None:
            initial, most, multiplier = self.growth
            return int(min(most, initial * multiplier**times))
        if self.kind == CUSTOMIZED and self.steps_ms is not None:
            return self.steps_ms[min(times + _FIRST_STEP, len(self.steps_ms) - 1)]
        return None

    def as_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"type": self.kind}
        if self.growth is not None:
            value["exponentialRetryPolicy"] = dict(zip(_GROWTH, self.growth, strict=True))
        if self.steps_ms is not None:
            value["customizedRetryPolicy"] = {"next": list(self.steps_ms)}
        return value

    @classmethod
    def from_json(cls, value: Any) -> RetryPolicy:
        """Parse a policy. Raises BodyError."""
        kind = value.get("type", CUSTOMIZED) if isinstance(value, dict) else None
        if kind not in (CUSTOMIZED, EXPONENTIAL):
            raise BodyError(f"groupRetryPolicy has no type {CUSTOMIZED} or {EXPONENTIAL}")
        growth, steps = value.get("exponentialRetryPolicy"), value.get("customizedRetryPolicy")
        return cls(
            kind,
            None if growth is None else _growth_of(growth),
            None if steps is None else _steps_of(steps),
        )


BY_LEVELS: Final = RetryPolicy()
"""The policy of a group that was given none."""


def _growth_of(value: Any) -> tuple[int, int, int]:
    found = value if isinstance(value, dict) else {}
    initial, most, multiplier = (found.get(name, default) for name, default in _GROWTH.items())
    if not all(_is_delay(number) for number in (initial, most, multiplier)):
        raise BodyError(f"exponentialRetryPolicy has no numbers {', '.join(_GROWTH)}: {value!r}")
    return initial, most, multiplier


def _steps_of(value: Any) -> tuple[int, ...]:
    steps = value.get("next") if isinstance(value, dict) else None
    if not isinstance(steps, list) or not 0 < len(steps) <= _STEPS_MAX:
        raise BodyError(f"customizedRetryPolicy has no list next of 1 to {_STEPS_MAX} delays")
    if not all(map(_is_delay, steps)):
        raise BodyError(f"next of customizedRetryPolicy holds what is not a delay in ms: {steps!r}")
    return tuple(steps)


def _is_delay(number: Any) -> bool:
    return type(number) is int and 0 <= number <= _LONG_MAX
