"""nsq_to_nsq: the messages of topics go to other nsqds (NSQ spec 6.6).

``options`` is the command line, ``program`` what it comes to. A ``forwarder`` passes one topic's
messages on to the ``destinations``, which topics share; ``json_filter`` says which, and what of
them; ``runs`` are messages that go the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.nsq.tools.lifecycle import run_tool
from penstock.nsq.tools.nsq_to_nsq.command_line import parse_options

__all__ = ["run"]


def run(argv: Sequence[str]) -> int:
    """nsq_to_nsq, until it is asked to end."""
    options = parse_options(argv)
    from penstock.nsq.tools.nsq_to_nsq.program import (
        forward,  # late: a wrong flag is answered quickly
    )

    return run_tool(lambda stop: forward(options, stop))
