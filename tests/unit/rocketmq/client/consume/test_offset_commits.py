"""Commits of queues that have changed."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.consume.held import HeldQueue
from penstock.rocketmq.client.consume.offset_commits import Commits
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.client.network.jobs import Job, Promise
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.memory_hub import MemoryHub

QUEUES = [MessageQueue("a", number, "T") for number in range(3)]


class Store:
    """Offsets that may not be writable."""

    def __init__(self) -> None:
        self.written: list[dict[MessageQueue, int]] = []
        self.fails = False
        self.answers: list[Promise[None]] = []

    async def read(self, queue: MessageQueue) -> int | None:
        return None

    async def write(self, offsets: dict[MessageQueue, int]) -> None:
        if self.fails:
            raise NotConnected("a:1", "gone")
        self.written.append(offsets)
        if self.answers:
            await self.answers.pop()


def test_only_what_has_changed_is_written() -> None:
    hub, store = MemoryHub(), Store()
    commits = Commits(hub, "G", store)
    first, second = (HeldQueue(queue, 5) for queue in QUEUES[:2])
    hub.does(Job(commits.write([first, second])))
    hub.does(Job(commits.write([first, second])))
    second.next_offset = 7
    hub.does(Job(commits.write([first, second])))
    assert store.written == [{QUEUES[0]: 5}, {QUEUES[1]: 5}, {QUEUES[1]: 7}]


def test_one_that_fails_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    hub, store = MemoryHub(), Store()
    commits, held = Commits(hub, "G", store), HeldQueue(QUEUES[0], 5)
    store.fails = True
    hub.does(Job(commits.write([held])))
    assert "[G] updateConsumeOffsetToBroker exception: a:1: gone" in caplog.text
    store.fails = False
    hub.does(Job(commits.write([held])))
    assert store.written == [{QUEUES[0]: 5}]


def test_the_first_commit_of_a_topic_is_alone() -> None:
    """Java's broker may lose one of two that make the group's table."""
    hub, store = MemoryHub(), Store()
    commits, answer = Commits(hub, "G", store), Promise[None]()
    store.answers.append(answer)
    job = Job(commits.write([HeldQueue(queue, 5) for queue in QUEUES]))
    assert store.written == [{QUEUES[0]: 5}]
    answer.keep(None)
    hub.does(job)
    assert store.written == [{queue: 5} for queue in QUEUES]
    store.answers.append(Promise[None]())
    Job(commits.write([HeldQueue(queue, 6) for queue in QUEUES]))
    assert store.written[3:] == [{queue: 6} for queue in QUEUES]
