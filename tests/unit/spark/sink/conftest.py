"""Scripted nodes, and rows as Spark hands them to a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from penstock.spark.access import close_connections
from tests.unit.spark.sink.fake_node import FakeNode


@pytest.fixture
def start_node() -> Iterator[Callable[..., FakeNode]]:
    with ExitStack() as stack:
        yield lambda kind="": stack.enter_context(FakeNode(kind))
    close_connections()


@pytest.fixture
def node(start_node: Callable[..., FakeNode]) -> FakeNode:
    return start_node()
