"""Fixtures of tests that stay below `tests/unit`, for these as well."""

from __future__ import annotations

from tests.unit.spark.sink.conftest import node, start_node

__all__ = ["node", "start_node"]
