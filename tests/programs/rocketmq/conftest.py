"""Fixtures of tests that stay below `tests/unit`, for these as well."""

from __future__ import annotations

from tests.unit.rocketmq.conftest import connect, loop_thread, name_server, settings

__all__ = ["connect", "loop_thread", "name_server", "settings"]
