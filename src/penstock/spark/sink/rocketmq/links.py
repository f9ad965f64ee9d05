"""Connections of one task to brokers, each for one thread at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.rocketmq.blocking import RemotingLink
from penstock.spark.rocketmq.access import BrokerAccess


class Links:
    """Use as a context manager."""

    def __init__(self, access: BrokerAccess) -> None:
        self._access = access
        self._idle: dict[str, deque[RemotingLink]] = {}

    def __enter__(self) -> Links:
        return self

    def __exit__(self, *_: object) -> None:
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    @contextmanager
    def to(self, address: str) -> Iterator[RemotingLink]:
        """A connection to a broker."""
        idle = self._idle.setdefault(address, deque())
        try:
            link = idle.pop()
        except IndexError:
            link = self._access.link(address)
        try:
            yield link
        finally:
            idle.append(link)
