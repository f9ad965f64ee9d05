"""Scripted daemons, and an asker."""

from __future__ import annotations

from tests.unit.cluster.conftest import asker, fake

__all__ = ["asker", "fake"]
