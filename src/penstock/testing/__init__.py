"""Tools for tests of Penstock, and of what is built on it: daemons, clocks, disks.

from penstock.testing import FakeClock, in_thread, run_nsqd, run_nsqlookupd
"""

from __future__ import annotations

from penstock.testing.aio import in_thread
from penstock.testing.clock import FakeClock
from penstock.testing.daemons import Daemon, DaemonError, run_nsqadmin, run_nsqd, run_nsqlookupd

__all__ = [
    "Daemon",
    "DaemonError",
    "FakeClock",
    "in_thread",
    "run_nsqadmin",
    "run_nsqd",
    "run_nsqlookupd",
]
