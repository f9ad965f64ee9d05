"""The same three flows for every third-party client, and how its process talks to the test.

A client runs as a process of its own, since each brings its own event loop. It is called with the
mode, nsqd's TCP address and nsqlookupd's HTTP address; it prints `RESTART` when nsqd is to be
restarted and then waits for a line on its standard input; its last line is a JSON object of what it
finished: body -> attempts. It ends by itself.

- `all`: publish, multi-publish, deferred publish; finish, requeue, touch; idle over heartbeats.
- `restart`: a message before and one after a restart of nsqd, with the client's own reconnecting.
- `lookup`: the consumer knows nsqlookupd only.
- `tls-snappy`, `tls-deflate`, `deflate`: short and long messages through these layers; the server's
  certificate is signed by the authority in the file that the environment's FLOW_CA names.
"""

from __future__ import annotations

import json
import sys

TOPIC = "flow"
CHANNEL = "ch"

SINGLE = "single"
MULTIPLE = ["multi-1", "multi-2", "multi-3"]
DEFERRED = "deferred"
DEFER_MS = 400
REQUEUED = "requeued"
REQUEUE_MS = 100
TOUCHED = "touched"
MSG_TIMEOUT_S = 8.5
"""Of the nsqd under test: a client may stand still for 7 s between two touches."""
TOUCHES = 6
TOUCH_EVERY_S = 1.5
"""Together longer than the message timeout."""
HEARTBEAT_S = 7
"""Longer than a client may stand still: nsqd closes a connection that is silent for two of them."""
IDLE_S = 15.0
"""An idle connection that answered no heartbeats would be closed after two intervals."""
LAST = "last"
BEFORE = "before"
AFTER = "after"
FOUND = "found"
LONG = "long"
LONG_BODY = LONG + " body" * 25_600
"""128,004 bytes; shown as `LONG`."""

FIRST_PART = {SINGLE, *MULTIPLE, DEFERRED, REQUEUED, TOUCHED}
EXPECTED: dict[str, dict[str, int]] = {
    "all": {**dict.fromkeys(FIRST_PART | {LAST}, 1), REQUEUED: 2},
    "restart": {BEFORE: 1, AFTER: 1},
    "lookup": {FOUND: 1},
    **dict.fromkeys(
        ("tls-snappy", "tls-deflate", "deflate"), dict.fromkeys([SINGLE, *MULTIPLE, LONG], 1)
    ),
}
FLOW_S_MAX = 300.0


def arguments() -> tuple[str, str, str]:
    """Mode, nsqd's TCP address, nsqlookupd's HTTP address."""
    mode, tcp, lookup = sys.argv[1:]
    return mode, tcp, lookup


def restart() -> None:
    """Have nsqd restarted; returns when it listens again."""
    print("RESTART", flush=True)
    sys.stdin.readline()


def report(finished: dict[str, int]) -> None:
    """The result, for the test."""
    print(json.dumps(finished), flush=True)
