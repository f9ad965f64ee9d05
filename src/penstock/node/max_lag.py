"""``--promote-max-lag``: the most that the promotion of a copy may lose without ``--force``."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.core.settings.option_kinds import Kind
from penstock.core.units import SECOND, format_duration, parse_duration


class MaxLag(NamedTuple):
    """A time in nanoseconds, or a number of messages where ``messages`` is not None."""

    ns: int = SECOND
    messages: int | None = None

    @classmethod
    def parse(cls, text: str) -> MaxLag:
        """The bound that is written as ``500ms`` or ``1000``. Raises ValueError."""
        if text.isdecimal() and text.isascii():
            return cls(messages=int(text))
        ns = parse_duration(text)
        if ns < 0:
            raise ValueError("it must not be negative")
        return cls(ns)

    def __str__(self) -> str:
        """The bound as it is written."""
        return format_duration(self.ns) if self.messages is None else str(self.messages)


class MaxLagKind(Kind):
    """A bound in seconds or in messages."""

    placeholder = "lag"
    form = "a duration such as 1s, or a number of messages"

    def from_flag(self, text: str) -> MaxLag:
        return MaxLag.parse(text)

    def from_config(self, value: Any) -> MaxLag:
        return MaxLag.parse(str(value))

    show_default = Kind.show


MAX_LAG = MaxLagKind()
