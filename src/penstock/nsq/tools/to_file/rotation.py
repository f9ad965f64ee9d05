"""The end of a file and the start of the next one: by name, by age, by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core.units import format_duration


@dataclass(frozen=True, slots=True)
class Rotation:
    """The limits; 0 for none. ``size`` is in bytes, ``interval`` in nanoseconds."""

    size: int = 0
    interval: int = 0

    def reason(self, name: str, new_name: str, age: int, path: str, nbytes: int) -> str | None:
        """The reason why a file of this name, age (ns) and length is left now, if it is."""
        if new_name != name:
            return f"new filename {new_name}"
        if 0 < self.interval < age:
            return f"{format_duration(age)} since last open"
        return self.too_large(path, nbytes)

    def too_large(self, path: str, nbytes: int) -> str | None:
        """The reason why a file of this length gets nothing more; None when it does."""
        if 0 < self.size < nbytes:
            return f"{path} currently {nbytes} bytes (> {self.size})"
        return None

    def room(self, nbytes: int, bodies: Sequence[bytes], first: int) -> int:
        """The number of bodies from ``first`` on that go into a file of ``nbytes``, a line each.

        A file ends with the message that makes it larger than the limit; so at least one goes in.
        """
        if self.size <= 0:
            return len(bodies) - first
        for index in range(first, len(bodies)):
            nbytes += len(bodies[index]) + 1
            if nbytes > self.size:
                return index + 1 - first
        return len(bodies) - first
