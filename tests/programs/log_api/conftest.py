"""Scripted daemons, and an asker."""

from __future__ import annotations

from tests.programs.cluster.conftest import asker, fake

__all__ = ["asker", "fake"]
