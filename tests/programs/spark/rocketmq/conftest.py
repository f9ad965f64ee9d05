from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.spark.access import close_connections
from tests.unit.spark.rocketmq.scripted_broker import ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker
        close_connections()
