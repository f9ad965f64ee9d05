"""The cases of `rocketmq/broker/test_staging.py` that need a port or a process."""

from __future__ import annotations

from penstock.rocketmq.broker.daemon import RocketBroker
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.rocketmq.raw_client import RawClient


def test_a_topic_is_in_the_routes_when_its_first_chunk_may_be_answered(
    rocket: RocketBroker, loop_thread: LoopThread, routes: RawClient
) -> None:
    staging = rocket.staging
    assert routes.ask(105, topic="New").code == 17
    loop_thread.run(staging.topic("New"))
    assert routes.ask(105, topic="New").code == 0
