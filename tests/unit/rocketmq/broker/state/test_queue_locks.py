"""Locks on queues."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.state import queue_locks
from penstock.rocketmq.broker.state.queue_locks import EXPIRY_NS, QueueLocks
from penstock.rocketmq.protocol.message_queue import MessageQueue

Q0, Q1 = MessageQueue("b", 0, "T"), MessageQueue("b", 1, "T")


def test_one_client_of_a_group_at_a_time() -> None:
    locks = QueueLocks()
    assert locks.lock("g", "c1", [Q0, Q1], 0) == [Q0, Q1]
    assert locks.lock("g", "c2", [Q0], 1) == []
    assert locks.lock("other", "c2", [Q0], 1) == [Q0]
    assert locks.lock("g", "c1", [Q0], 1) == [Q0]
    locks.unlock("g", "c2", [Q0, Q1])
    assert locks.holds("g", "c1", Q0, 1)
    locks.unlock("g", "c1", [Q0])
    assert locks.lock("g", "c2", [Q0, Q1], 2) == [Q0]


def test_locks_that_are_not_renewed_lapse() -> None:
    locks = QueueLocks()
    locks.lock("g", "c1", [Q0], 0)
    assert locks.lock("g", "c2", [Q0], EXPIRY_NS) == []
    assert not locks.holds("g", "c1", Q0, EXPIRY_NS + 1)
    assert locks.lock("g", "c2", [Q0], EXPIRY_NS + 1) == [Q0]
    locks.forget_expired(2 * EXPIRY_NS + 2)
    assert not locks.holds("g", "c2", Q0, EXPIRY_NS + 1)


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "LOCKS_MAX", 1)
    locks = QueueLocks()
    assert locks.lock("g", "c1", [Q0, Q1], 0) == [Q0]
    assert locks.lock("h", "c1", [Q0], 0) == []
    locks.unlock("h", "c1", [Q0])
    locks.unlock("g", "c1", [Q0])
    assert locks.lock("g", "c1", [Q1], 0) == [Q1]
    locks.forget_expired(EXPIRY_NS + 1)
    assert locks.lock("h", "c1", [Q0], 0) == [Q0]
