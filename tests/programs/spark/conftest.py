"""Nothing here starts a JVM; the Spark extra must be installed all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.spark.nodes.access import close_connections
from tests.spark.fake_log_server import FakeLogServer


@pytest.fixture
def server() -> Iterator[FakeLogServer]:
    with FakeLogServer() as server:
        yield server
    close_connections()
