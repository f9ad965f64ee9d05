"""The connections of one task that wait for their next use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final, Generic, Protocol, Self, TypeVar

KEPT_MAX: Final = 64
"""Connections that wait; of more the one that has waited longest is closed."""


class Closable(Protocol):
    """A connection."""

    def close(self) -> None: ...


_Connection = TypeVar("_Connection", bound=Closable)


class Idle(Generic[_Connection]):
    """Connections by address, each for one thread at a time; use as a context manager."""

    def __init__(self, connect: Callable[[str], _Connection]) -> None:
        self._connect = connect
        self._idle: list[tuple[str, _Connection]] = []
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that wait."""
        while self._idle:
            self._idle.pop()[1].close()

    @contextmanager
    def to(self, address: str) -> Iterator[_Connection]:
        """A connection to an address, new if all are in use. Raises the errors of ``connect``."""
        known = self._take(address)
        connection = self._connect(address) if known is None else known
        try:
            yield connection
        finally:
            self._give_back(address, connection)

    def _take(self, address: str) -> _Connection | None:
        with self._lock:
            places = range(len(self._idle) - 1, -1, -1)
            place = next((each for each in places if self._idle[each][0] == address), None)
            return None if place is None else self._idle.pop(place)[1]

    def _give_back(self, address: str, connection: _Connection) -> None:
        with self._lock:
            self._idle.append((address, connection))
            oldest = self._idle.pop(0)[1] if len(self._idle) > KEPT_MAX else None
        if oldest is not None:
            oldest.close()
