"""What routes and name servers need of a hub."""

from __future__ import annotations

import inspect

from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.network.runtime import Runtime


def test_a_hub_takes_the_same_arguments() -> None:
    for name in ("ask", "fetch", "spawn", "later", "sleep"):
        wanted = list(inspect.signature(getattr(Runtime, name)).parameters)
        assert list(inspect.signature(getattr(Hub, name)).parameters)[: len(wanted)] == wanted
