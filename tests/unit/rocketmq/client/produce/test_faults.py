"""Brokers that rest, and whose turn it is."""

from __future__ import annotations

import pytest

from penstock.core.chance import SystemChance
from penstock.core.units import SECOND
from penstock.rocketmq.client.produce.faults import Faults, QueueChoice
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.memory_hub import FakeClock

QUEUES = [MessageQueue(broker, number, "T") for broker in "ab" for number in range(2)]


@pytest.mark.parametrize(("took", "rests"), [(0.1, 0), (0.6, 30), (1.5, 60), (4, 180), (20, 600)])
def test_a_slow_broker_rests(took: float, rests: int) -> None:
    clock = FakeClock()
    faults = Faults(clock)
    faults.report("a", took)
    assert faults.rests("a") == bool(rests)
    clock.now += rests * SECOND
    assert not faults.rests("a")


def test_one_that_failed_rests_for_ten_minutes_unless_it_does_well() -> None:
    faults = Faults(FakeClock())
    faults.report("a", 0.0, failed=True)
    assert faults.rests("a")
    faults.report("a", 0.01)
    assert not faults.rests("a")


def test_queues_take_turns() -> None:
    choice = QueueChoice(None, SystemChance(1))
    assert {choice.choose(QUEUES) for _ in range(4)} == set(QUEUES)


def test_the_broker_that_has_just_failed_is_avoided_if_there_is_another() -> None:
    choice = QueueChoice(None, SystemChance(1))
    assert {choice.choose(QUEUES, "a").brokerName for _ in range(8)} == {"b"}
    assert choice.choose(QUEUES[:2], "a").brokerName == "a"


def test_those_that_rest_are_avoided_and_the_first_back_is_taken() -> None:
    clock = FakeClock()
    faults = Faults(clock)
    choice = QueueChoice(faults, SystemChance(1))
    faults.report("a", 1.0)
    assert {choice.choose(QUEUES).brokerName for _ in range(8)} == {"b"}
    faults.report("b", 20.0)
    assert {choice.choose(QUEUES).brokerName for _ in range(8)} == {"a"}
