"""Sends that wait for a slave: told when one has them, when none has, and when none is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.node.followers import Followers
from penstock.node.node import Node
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.slaves import acks as acks_module
from penstock.rocketmq.broker.slaves.acks import SlaveAcks
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import fake_node

OK, NONE, LATE = (
    ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT,
)  # fmt: skip


class Scene:
    """A topic with messages, and what its senders are told."""

    def __init__(self, node: Node, clock: FakeClock) -> None:
        self.clock = clock
        self.topic = node.broker.topic("T")
        self.followers = Followers(clock)
        self.acks = SlaveAcks(self.followers, node.broker.topics, clock, 50, 1000)
        self.followers.changed.append(self.acks.look)
        self.told: list[tuple[int, ResponseCode]] = []
        self.asked = 0

        def ask() -> None:
            self.asked += 1

        self.followers.ask = ask

    def send(self, nbytes: int = 1) -> int:
        """Store a message and wait for slaves; the log's end."""
        self.topic.stage(Bodies.single(b"x" * nbytes), 0, lambda _: None)
        self.topic.commit()
        end = self.topic.log.next_offset
        self.acks.wait("T", end, lambda code: self.told.append((end, code)))
        return end

    def heard(self, end: int) -> None:
        self.followers.heard("slave", {("T", self.topic.log.id_base): end})


@pytest.fixture
def scene(tmp_path: Path, clock: FakeClock) -> Iterator[Scene]:
    node = fake_node(tmp_path, clock)
    yield Scene(node, clock)
    node.broker.close()


async def test_a_send_is_told_once_a_slave_has_it_and_one_question_serves_several(
    scene: Scene,
) -> None:
    scene.heard(0)
    ends = [scene.send(), scene.send(), scene.send()]
    assert scene.told == []
    await asyncio.sleep(0)
    assert scene.asked == 1
    scene.heard(2)
    assert scene.told == [(ends[0], OK), (ends[1], OK)]
    scene.heard(3)
    scene.heard(3)
    assert scene.told[2:] == [(ends[2], OK)]


async def test_without_a_slave_that_is_told_at_once(scene: Scene) -> None:
    end = scene.send()
    scene.acks.wait("gone", 1, lambda code: scene.told.append((0, code)))
    assert scene.told == [(end, NONE), (0, NONE)]


async def test_a_slave_that_is_far_behind_is_not_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acks_module, "NEAR", 1)
    scene.heard(0)
    scene.send()
    scene.send(2000)
    assert scene.told == [(2, NONE)]
    scene.heard(2)
    assert scene.told == [(2, NONE), (1, OK)]


async def test_a_slave_that_does_not_tell_in_time(scene: Scene) -> None:
    scene.heard(0)
    scene.send()
    scene.clock.advance(30_000_000)
    scene.send()
    scene.heard(1)
    scene.send()
    scene.clock.advance(20_000_001)
    async with asyncio.timeout(30):
        while len(scene.told) < 2:
            scene.clock.advance(10_000_000)
            await asyncio.sleep(0.005)
        scene.followers.gone("slave")
        while len(scene.told) < 3:
            scene.clock.advance(10_000_000)
            await asyncio.sleep(0.005)
    assert scene.told == [(1, OK), (2, LATE), (3, LATE)]
    scene.heard(3)
    assert len(scene.told) == 3
