"""The daemon in the test's own loop, as for its other tests."""

from __future__ import annotations

from tests.programs.nsq.nsqd.conftest import start

__all__ = ["start"]
