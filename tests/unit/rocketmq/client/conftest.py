"""Real servers for a module's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .servers import Servers, shared_servers


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with shared_servers(transactionCheckInterval=500, transactionTimeOut=300, traceTopicEnable="true",
                     enablePropertyFilter="true") as found:  # fmt: skip
        yield found
