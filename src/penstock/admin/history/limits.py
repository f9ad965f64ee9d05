"""From where on a topic, channel or group wants attention; the pages show these numbers."""

from __future__ import annotations

from typing import Final, NamedTuple


class Limits(NamedTuple):
    """Messages, messages a second, seconds, shares."""

    backlog: int = 1_000
    """So many messages are many."""
    growth: float = 0.02
    """A backlog grows when so much of what comes is not taken."""
    empties_in: int = 3_600
    """One that does not grow is told of when it takes longer to be gone."""
    storm: float = 1.0
    """So many requeues or timeouts a second, and this share of what consumers get, are many."""
    storm_share: float = 0.1
    lag: int = 1_000
    """A group that is so far behind."""


LIMITS: Final = Limits()
