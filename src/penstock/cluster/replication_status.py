"""The answers of /replication, of a node and of its second copies: values, the nodes they name, and
what is the matter with them, as nsqadmin and the doctor judge it.

Go's nsqd has no copies, nor has one of ours that never had any: these give no ``Replication``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

TARGET: Final = "/replication"
BEHIND_S: Final = 10.0
"""A follower that was last whole this many seconds ago, or more, is far behind: its promotion needs
``--force``.
"""
BEHIND_BYTES: Final = 64 << 20
"""A follower that lacks this many bytes, or more, is far behind."""
GONE_S: Final = 10.0
"""The seconds without a request after which a follower counts as gone; it asks each second."""
PRIMARY, FOLLOWER, FENCED = "primary", "follower", "fenced"
_REFUSE: Final = "refuse"
WARN, BAD = "warn", "bad"
IS_FENCED, NOT_FOLLOWING, COPY_BEHIND = "fenced", "not_following", "copy_behind"
COPY_GONE, UNCOPIED, WITHOUT_COPIES = "copy_gone", "uncopied", "without_copies"
TROUBLES: Final = {
    IS_FENCED: BAD,
    NOT_FOLLOWING: BAD,
    COPY_BEHIND: WARN,
    COPY_GONE: BAD,
    UNCOPIED: BAD,
    WITHOUT_COPIES: WARN,
}
"""The kinds of what may be the matter with a node or its copies, and how bad each is."""


class FollowerStatus(Struct):
    """A follower as its primary saw it when it asked last."""

    address: str
    lag_messages: int = 0
    lag_bytes: int = 0
    asked_seconds_ago: float = 0

    @property
    def trouble(self) -> str:
        """One of TROUBLES for a follower that cannot be asked itself; empty if all is well."""
        if self.asked_seconds_ago >= GONE_S:
            return COPY_GONE
        return COPY_BEHIND if self.lag_bytes >= BEHIND_BYTES else ""


class LeaseStatus(Struct):
    """The lease of a primary that needs one; ``members`` are copies that have everything."""

    seconds_left: float = 0
    members: list[str] = []


class Replication(Struct):
    """The part of an answer that is shown; what a role does not tell is left as it is here.

    ``before`` is the primary before this one, ``lag_seconds`` None of a follower that was not whole
    since its start. ``put_aside`` and ``only_here`` count messages by topic. ``needs_force`` is why
    a promotion of this follower needs ``--force`` now, ``max_lag`` the bound that says so;
    ``lease`` is None of a primary that needs none.
    """

    role: str = PRIMARY
    epoch: int = 0
    history: str = ""
    primary: str = ""
    before: str = ""
    followers: list[FollowerStatus] = []
    replicas_acked: int = 0
    replicas_in_force: int = 0
    replicas_missing: str = ""
    messages_waiting: int = 0
    error: str | None = None
    whole: bool = False
    was_whole: bool = False
    lag_messages: int = 0
    lag_bytes: int = 0
    lag_seconds: float | None = None
    max_lag: str = ""
    needs_force: str = ""
    lease: LeaseStatus | None = None
    put_aside: dict[str, int] = {}
    fenced_epoch: int = 0
    only_here: dict[str, int] = {}

    @property
    def trouble(self) -> str:
        """One of TROUBLES; empty if all is well."""
        if self.role == FENCED:
            return IS_FENCED
        if self.role == FOLLOWER:
            if self.error is not None:
                return NOT_FOLLOWING
            return COPY_BEHIND if self._is_far_behind else ""
        if self.replicas_in_force >= self.replicas_acked:
            return ""
        return UNCOPIED if self.replicas_missing == _REFUSE else WITHOUT_COPIES

    @property
    def _is_far_behind(self) -> bool:
        """True of a follower whose primary's loss would cost more than the last moments."""
        late = self.lag_seconds is None or self.lag_seconds >= BEHIND_S
        return (late and not self.whole) or self.lag_bytes >= BEHIND_BYTES

    @property
    def has_copies(self) -> bool:
        """True for a node that has, or is waiting for, other copies."""
        return self.role != PRIMARY or self.epoch > 0 or self.replicas_acked > 0

    @property
    def named(self) -> list[str]:
        """The other nodes of the same history that this one names."""
        others = [self.primary, self.before, *(each.address for each in self.followers)]
        return [each for each in dict.fromkeys(others) if each]


def unasked_nodes(found: Iterable[tuple[str, Replication]], asked: Iterable[str]) -> list[str]:
    """The nodes that these name and that were not asked: a standby is registered nowhere."""
    known = set(asked)
    named = (name for _, each in found for name in each.named)
    return [each for each in dict.fromkeys(named) if each not in known]
