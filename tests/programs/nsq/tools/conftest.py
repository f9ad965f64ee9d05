"""Fixtures of tests that stay below `tests/unit`, for these as well."""

from __future__ import annotations

from tests.unit.nsq.tools.conftest import loggers

__all__ = ["loggers"]
