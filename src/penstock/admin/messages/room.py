"""Room for few of what takes a while: a request beyond that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.net.http.server.api import ApiError


class Room:
    """Room for ``most`` at the same time; ApiError 503 with ``code`` for another."""

    def __init__(self, most: int, code: str) -> None:
        self._left = most
        self._code = code

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take a place until the end of the block."""
        if not self._left:
            raise ApiError(503, self._code)
        self._left -= 1
        try:
            yield
        finally:
            self._left += 1
