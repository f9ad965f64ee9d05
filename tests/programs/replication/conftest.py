"""Nodes of nsqds, which talk to one another over HTTP."""

from __future__ import annotations

from tests.programs.nsq.nsqd.conftest import nsqd, start

__all__ = ["nsqd", "start"]
