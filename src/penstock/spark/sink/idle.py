"""The connections of one task that wait for their next use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, Self, TypeVar


class Closable(Protocol):
    """A connection."""

    def close(self) -> None: ...


_Connection = TypeVar("_Connection", bound=Closable)


class Idle(Generic[_Connection]):
    """Connections by address, each for one thread at a time; use as a context manager."""

    def __init__(self, connect: Callable[[str], _Connection]) -> None:
        self._connect = connect
        self._idle: dict[str, deque[_Connection]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    @contextmanager
    def to(self, address: str) -> Iterator[_Connection]:
        """A connection to an address, new if all are in use. Raises the errors of ``connect``."""
        idle = self._idle.setdefault(address, deque())
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._connect(address)
        try:
            yield connection
        finally:
            idle.append(connection)
