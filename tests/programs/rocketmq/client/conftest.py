"""Real servers for a module's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.harness.rocketmq.servers import ELSEWHERE, Servers, shared_servers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """At servers that somebody else has started, leave out what starts its own."""
    if ELSEWHERE in os.environ:
        here = Path(__file__).parent
        items[:] = [
            item for item in items
            if here not in item.path.parents or "servers" in getattr(item, "fixturenames", ())
        ]  # fmt: skip


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    quick = {"transactionCheckInterval": 500, "transactionTimeOut": 300,
             "transactionCheckMax": 10_000, "messageDelayLevel": " ".join(["1s"] * 18)}  # fmt: skip
    with shared_servers(traceTopicEnable="true", enablePropertyFilter="true", **quick) as found:
        yield found
