"""Tools for tests of Penstock, and of what is built on it: daemons, clocks, a ledger, disks.

docs/testing.md shows them at work.
"""

from __future__ import annotations

from penstock.testing.aio import in_thread
from penstock.testing.clock import FakeClock
from penstock.testing.daemons import (
    Daemon,
    DaemonError,
    run_mqbroker,
    run_mqnamesrv,
    run_nsqadmin,
    run_nsqd,
    run_nsqlookupd,
    run_rocketmq,
)
from penstock.testing.ledger import Ledger, make_body

__all__ = [
    "Daemon",
    "DaemonError",
    "FakeClock",
    "Ledger",
    "in_thread",
    "make_body",
    "run_mqbroker",
    "run_mqnamesrv",
    "run_nsqadmin",
    "run_nsqd",
    "run_nsqlookupd",
    "run_rocketmq",
]
