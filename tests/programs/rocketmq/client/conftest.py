"""Real servers for a module's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .servers import Servers, shared_servers


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    quick = {"transactionCheckInterval": 500, "transactionTimeOut": 300}
    with shared_servers(traceTopicEnable="true", enablePropertyFilter="true", **quick) as found:
        yield found
