"""Fixtures of tests that stay below `tests/unit`, for these as well."""

from __future__ import annotations

from tests.unit.cli.conftest import command

__all__ = ["command"]
