"""Strategies: each queue is somebody's, and nobody's twice."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.consume.allocation import (
    STRATEGIES,
    averagely,
    by_circle,
    by_config,
    by_machine_room,
    consistently,
    near_by,
    share_of,
)
from penstock.rocketmq.protocol.message_queue import MessageQueue


def queues(count: int, broker: str = "a") -> list[MessageQueue]:
    return [MessageQueue(broker, number, "T") for number in range(count)]


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("members", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("count", [1, 4, 8])
def test_each_queue_is_owned_once(name: str, members: int, count: int) -> None:
    names = [f"m{number}" for number in range(members)]
    owned = [
        queue
        for member in names
        for queue in share_of(STRATEGIES[name], member, reversed(queues(count)), names[::-1])  # type: ignore[arg-type]
    ]
    assert sorted(owned) == sorted(queues(count))


def test_blocks_and_turns_as_java_has_them() -> None:
    every = queues(5)
    assert averagely("b", every, ["a", "b"]) == every[3:]
    assert by_circle("b", every, ["a", "b"]) == every[1::2]


def test_few_queues_change_hands_by_hash() -> None:
    every = queues(64)
    before = set(consistently("a", every, ["a", "b", "c"]))
    after = set(consistently("a", every, ["a", "b"]))
    assert before <= after


def test_a_fixed_choice() -> None:
    every = queues(4)
    assert by_config(every[1], every[3])("x", every, ["x", "y"]) == [every[1], every[3]]


def test_rooms_in_the_names_of_brokers() -> None:
    every = queues(5, "r1@a") + queues(2, "r2@b") + queues(2, "plain")
    allocate = by_machine_room("r1")
    found = [allocate(member, every, ["x", "y"]) for member in ("x", "y")]
    assert found == [[*every[:2], every[4]], every[2:4]]


def test_queues_of_a_room_for_the_members_in_it() -> None:
    every = queues(2, "r1-a") + queues(2, "r2-a") + queues(2, "r3-a")
    members = ["r1-x", "r2-x", "r2-y"]

    def room(name: str) -> str:
        return name.partition("-")[0]

    allocate = near_by(room, room)
    owned = {member: allocate(member, every, members) for member in members}
    assert {queue.brokerName for queue in owned["r1-x"]} == {"r1-a", "r3-a"}
    assert sorted(queue for found in owned.values() for queue in found) == sorted(every)


def test_a_member_that_the_broker_does_not_know_has_none() -> None:
    assert share_of(averagely, "me", queues(4), ["you"]) == []
    assert share_of(averagely, "me", [], ["me"]) == []
