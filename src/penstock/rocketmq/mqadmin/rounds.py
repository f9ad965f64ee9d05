"""Sub-commands that go on: a round, a pause, the next one, until they are interrupted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from penstock.rocketmq.mqadmin.output import Output


def every(seconds: float, work: Callable[[], None], out: Output) -> None:
    """Do this again and again; in JSON each round is an object."""
    while True:
        work()
        out.finish()
        sys.stdout.flush()
        time.sleep(seconds)
