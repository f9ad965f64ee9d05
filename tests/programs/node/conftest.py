"""The node of an nsqd, which talks to it over HTTP and TCP."""

from __future__ import annotations

from tests.programs.nsq.nsqd.conftest import filled, nsqd, start

__all__ = ["filled", "nsqd", "start"]
