"""Fixtures of tests that stay below `tests/unit`, for these as well."""

from __future__ import annotations

from tests.unit.admin.conftest import admin, asker, fake, two

__all__ = ["admin", "asker", "fake", "two"]
