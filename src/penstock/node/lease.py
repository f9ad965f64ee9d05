"""The lease of a primary: a permission to acknowledge publishes, which ends by itself.

``penstock lease`` holds it in etcd or Kubernetes and renews it here. So a primary that is cut off
from those who would promote another one stops before they do. The lease names the ``members``: the
copies without which nothing is acknowledged, so each of them may be promoted.
"""

from __future__ import annotations

from penstock.core.clock import Clock
from penstock.core.units import SECOND


class Lease:
    """The lease of this node; none is held at its start."""

    def __init__(self, clock: Clock) -> None:
        self.members: tuple[str, ...] = ()
        self._clock = clock
        self._until_ns = 0

    def grant(self, until_ns: int, members: tuple[str, ...]) -> None:
        """Hold it until this time of the node's monotonic clock, with these members."""
        self._until_ns = until_ns
        self.members = members

    @property
    def left_ns(self) -> int:
        """The time for which it is still held."""
        return max(0, self._until_ns - self._clock.monotonic_ns())

    @property
    def refusal(self) -> str:
        """The reason why nothing may be acknowledged; empty while the lease is held."""
        if self._clock.monotonic_ns() < self._until_ns:
            return ""
        return "this node holds no lease: penstock lease has not renewed it"

    def figures(self) -> dict[str, object]:
        """The part of /replication; ``clock_ns`` is for whoever says until when it is held."""
        return {
            "clock_ns": self._clock.monotonic_ns(),
            "seconds_left": round(self.left_ns / SECOND, 3),
            "members": list(self.members),
        }
