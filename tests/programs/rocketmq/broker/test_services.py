"""What goes on beside the requests: started with the broker, closed with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.services import services_of
from penstock.rocketmq.broker.settings import BrokerSettings
from tests.unit.rocketmq.broker.conftest import fake_node
from tests.unit.rocketmq.conftest import LoopThread


async def test_services_that_never_started_can_be_closed(controller: Controller) -> None:
    services = services_of(controller)
    assert controller.schedule in services
    for service in services:
        await service.close()


def test_nothing_goes_on_after_the_end(
    loop_thread: LoopThread, settings: BrokerSettings, tmp_path: Path
) -> None:
    host = fake_node(tmp_path)
    broker = loop_thread.run(RocketBroker.start(settings, host))
    loop_thread.run(broker.close())

    async def left() -> list[str]:
        await asyncio.sleep(0)
        own = asyncio.current_task()
        return [task.get_name() for task in asyncio.all_tasks() if task is not own]

    assert loop_thread.run(left()) == []
    host.broker.close()
