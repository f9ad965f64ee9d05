"""The limits at which a topic, channel or group wants attention; the pages show them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Limits(NamedTuple):
    """Messages, messages a second, seconds, shares."""

    backlog: int = 1_000
    """The least depth, or lag of a group, that counts as a backlog, in messages."""
    growth: float = 0.02
    """The share of incoming messages left untaken above which a backlog counts as growing."""
    empties_in: int = 3_600
    """The seconds to empty above which a backlog that does not grow is reported."""
    ever_s: int = 86_400
    """The seconds to empty above which a backlog counts as staying the same."""
    near_s: int = 5
    """A backlog that is read in fewer seconds than this counts as none: the readers keep up."""
    still: float = 1 / 60
    """The messages a second below which nothing is read."""
    storm: float = 1.0
    """The least requeues or timeouts a second that make a storm.

    They must also be at least the share ``storm_share`` of what consumers get.
    """
    storm_share: float = 0.1


LIMITS: Final = Limits()
