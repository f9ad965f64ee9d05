"""Locks on queues for orderly consumption: one client of a group at a time (RocketMQ spec 4.8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.core.units import SECOND
from penstock.rocketmq.protocol.message_queue import MessageQueue

EXPIRY_NS: Final = 60 * SECOND
LOCKS_MAX: Final = 1_000_000
"""Locks of all groups; above it no new ones are granted until some have expired."""


class _Lock(NamedTuple):
    client: str
    renewed: int


class QueueLocks:
    """Locks of queues, each held by one client of a group; times are monotonic ns."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def lock(
        self, group: str, client: str, queues: Iterable[MessageQueue], now: int
    ) -> list[MessageQueue]:
        """Lock or renew; those of the queues that the client holds now."""
        locks = self._groups.setdefault(group, {})
        held = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                if self._count >= LOCKS_MAX:
                    continue
                self._count += 1
            elif lock.client != client and now - lock.renewed <= EXPIRY_NS:
                continue  # one that has lapsed is free, swept or not (RocketMQ spec 4.8)
            locks[queue] = _Lock(client, now)
            held.append(queue)
        self._drop_if_empty(group)
        return held

    def unlock(self, group: str, client: str, queues: Iterable[MessageQueue]) -> None:
        """Give back those of the queues that the client holds."""
        locks = self._groups.get(group, {})
        for queue in queues:
            if queue in locks and locks[queue].client == client:
                self._drop(locks, queue)
        self._drop_if_empty(group)

    def holds(self, group: str, client: str, queue: MessageQueue, now: int) -> bool:
        """True if the client holds the queue, and has renewed the lock in time."""
        lock = self._groups.get(group, {}).get(queue)
        return lock is not None and lock.client == client and now - lock.renewed <= EXPIRY_NS

    def forget_expired(self, now: int) -> None:
        """Drop locks that nobody has renewed."""
        for group, locks in list(self._groups.items()):
            for queue in [q for q, lock in locks.items() if now - lock.renewed > EXPIRY_NS]:
                self._drop(locks, queue)
            self._drop_if_empty(group)

    def _drop(self, locks: dict[MessageQueue, _Lock], queue: MessageQueue) -> None:
        del locks[queue]
        self._count -= 1

    def _drop_if_empty(self, group: str) -> None:
        if not self._groups.get(group, True):
            del self._groups[group]
