"""Scripted daemons, and an asker."""

from __future__ import annotations

from tests.programs.cluster.conftest import fake, http

__all__ = ["fake", "http"]
