"""Locks of queues."""

from __future__ import annotations

from penstock.rocketmq.client.consume.locks import Locks
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import MemoryHub

QUEUES = [MessageQueue("a", number, "T") for number in range(2)]


def test_what_others_have_is_not_granted() -> None:
    hub = MemoryHub()
    brokers = Brokers(hub, "T")
    hub.does(Job(hub.routes.of("T")))
    locks = Locks(hub, "G")
    brokers.others_locks = {QUEUES[1]}
    assert hub.does(Job(locks.lock(QUEUES))) == {QUEUES[0]}
    hub.does(Job(locks.unlock(QUEUES[0])))
    assert brokers.locked == set()


def test_a_broker_that_does_not_say_is_no_refusal() -> None:
    hub = MemoryHub()
    Brokers(hub, "T")
    locks = Locks(hub, "G")
    assert hub.does(Job(locks.lock(QUEUES))) is None  # no route yet
    hub.does(Job(locks.unlock(QUEUES[0])))
    hub.does(Job(hub.routes.of("T")))
    hub.answers[RequestCode.LOCK_BATCH_MQ] = lambda _, request: request.answer(body=b"[]")
    assert hub.does(Job(locks.lock(QUEUES))) is None
    hub.answers[RequestCode.UNLOCK_BATCH_MQ] = lambda _, request: request.answer(1, "no")
    hub.does(Job(locks.unlock(QUEUES[0])))
