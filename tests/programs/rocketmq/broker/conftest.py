"""Fixtures of tests that stay below `tests/unit`, for these as well."""

from __future__ import annotations

from tests.unit.rocketmq.broker.conftest import clock, connect, controller, rocket, settings

__all__ = ["clock", "connect", "controller", "rocket", "settings"]
