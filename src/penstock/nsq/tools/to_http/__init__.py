"""nsq_to_http: a request to an HTTP endpoint for every message of a channel (NSQ spec 6.5).

``options`` is the command line, ``program`` what it comes to. ``urls`` and ``hops`` make requests
of messages, ``publisher`` sends them; none of them knows NSQ.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.nsq.tools.lifecycle import run_tool
from penstock.nsq.tools.to_http.command_line import parse_options

__all__ = ["run"]


def run(argv: Sequence[str]) -> int:
    """nsq_to_http, until it is asked to end."""
    options = parse_options(argv)
    from penstock.nsq.tools.to_http.program import forward  # late: a wrong flag is answered quickly

    return run_tool(lambda stop: forward(options, stop))
