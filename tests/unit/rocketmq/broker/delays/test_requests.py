from __future__ import annotations

from pathlib import Path

from penstock.core.units import SECOND
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.lives import Lives
from tests.unit.rocketmq.broker.peers import FakePeer, answered, request

from .test_publisher import delayed

GET_ALL_DELAY_OFFSET = 45
PEER = FakePeer().connection


async def test_offsets_are_told_as_java_tells_them(tmp_path: Path, clock: FakeClock) -> None:
    lives = Lives(tmp_path, clock)
    controller = lives.begin("T")
    await controller.publisher.publish_one(delayed(1))
    await controller.publisher.publish_one(delayed(3))
    clock.advance(SECOND)
    while await controller.schedule.step() <= controller.now_ms:
        pass
    answer = answered(controller, PEER, request(GET_ALL_DELAY_OFFSET))
    assert (answer.code, answer.body) == (0, b'{"offsetTable":{1:1}}')
    lives.end()
