"""Nothing here starts a JVM; the Spark extra must be installed all the same."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from penstock.core.units import SECOND
from penstock.spark import access
from penstock.spark.access import close_connections
from penstock.spark.sink import node_rotation, sending
from penstock.spark.sink.rocketmq import publishing as rocketmq_publishing
from penstock.testing.clock import FakeClock
from tools.harness.fake_log_server import FakeLogServer


@pytest.fixture
def server() -> Iterator[FakeLogServer]:
    with FakeLogServer() as server:
        yield server


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Directories and connections of another test are not known, whose ports may be given once
    more.
    """
    monkeypatch.setattr(node_rotation, "_last", {})
    monkeypatch.setattr(rocketmq_publishing, "_routes", {})
    yield
    close_connections()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries take no time, and nothing but them counts for the option ``timeout``: a
    busy machine tries as often as any, and no answer is waited for so briefly that it may be late.
    """
    clock = FakeClock()
    pauses = SimpleNamespace(sleep=lambda seconds: clock.advance(int(seconds * SECOND)))
    for module in (access, sending):
        monkeypatch.setattr(module, "SYSTEM_CLOCK", clock)
        monkeypatch.setattr(module, "time", pauses)
