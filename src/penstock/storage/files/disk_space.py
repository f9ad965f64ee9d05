"""Free and used space of the file system that holds a path."""

from __future__ import annotations

import os
from typing import NamedTuple


class DiskSpace(NamedTuple):
    """Bytes of a file system; ``free`` is what this process may still use."""

    total: int
    used: int
    free: int

    @classmethod
    def of(cls, path: str) -> DiskSpace | None:
        """The file system of a path; None when it cannot be asked."""
        try:
            found = os.statvfs(path)
        except OSError:
            return None
        return cls(
            found.f_blocks * found.f_frsize,
            (found.f_blocks - found.f_bfree) * found.f_frsize,
            found.f_bavail * found.f_frsize,
        )

    @property
    def used_share(self) -> float:
        """The used part of the usable space, in hundredths, rounded up as ``df`` does."""
        usable = self.used + self.free
        return -(-self.used * 100 // usable) / 100 if usable else 0.0
