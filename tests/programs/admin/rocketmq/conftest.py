"""An nsqadmin over a small cluster of RocketMQ."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.unit.admin.conftest import Running, StartAdmin
from tools.harness.rocketmq.shop import Shop, running_shop

OverShop = Callable[..., Awaitable[Running]]


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with running_shop() as shop:
        yield shop


@pytest.fixture
def over_shop(shop: Shop, admin: StartAdmin) -> OverShop:
    """Starts an nsqadmin over RocketMQ alone, with these options."""

    async def start(**options: Any) -> Running:
        given = (shop.name_server.rocketmq,)
        return await admin(rocketmq_namesrv_addresses=given, history_interval=10**10, **options)

    return start


@pytest.fixture
async def asked(over_shop: OverShop) -> Running:
    return await over_shop()
