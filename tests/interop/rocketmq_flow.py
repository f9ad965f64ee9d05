"""The flows that every third-party RocketMQ client plays, and how its process talks to the test.

A client runs as a process of its own, called with the flow, the name server's address, and a name
that is its topic and its group. The topic is there, with four queues, and empty. When the process
wants a server restarted it prints `RESTART broker` or `RESTART namesrv` and waits for a line on its
standard input. `RESULT` and JSON on a line are its result; the test knows what it must be. It ends
by itself.

- `send`: one message by each way of sending, then a push consumer. body -> [tag, key, property
  `color`]; `QUEUE` and `DELAY`: the queue of the selected one, how long the delayed one was kept.
- `orderly`: numbers, selected to queues by their remainder, to an orderly consumer which refuses
  one of them twice. queue -> numbers as consumed, refusals left out.
- `filter`: tags A, B and C; consumed are `A || C`. The bodies, sorted.
- `sql`: numbers with a property `number`; consumed are those for which `EXPRESSION` is true.
- `pull`, `lite-pull`: all numbers with a pull consumer. The bodies, sorted.
- `batch`: all numbers with one send. The bodies; how many offsets and ids there are.
- `share`: two consumers of one group. How many messages each of them got, and how many twice.
- `broadcast`: two consumers of one group, each of which gets all. How many each of them got.
- `retry`: refused until it becomes a dead letter. How often it was delivered, and the topic that
  the consumer saw.
- `resume`: a second consumer goes on where the first one stopped. What each of them got.
- `pop`: all numbers with two consumers that the broker gives messages to, one refused at first. The
  bodies; how many were refused.
- `transaction`: bodies say what becomes of them, at first or when the broker asks. Those that were
  consumed, those that were asked for.
- `request`: three requests. Their replies.
- `query`: by key, offset id and unique id. The bodies found.
- `reset`: the group is reset to the beginning after it has consumed all. How many different bodies
  it got, all of them twice.
- `running-info`: what a consumer tells the administrator.
- `broker`, `namesrv`: sends and consumes while that server is killed and started again. How many
  acknowledged messages were never consumed, and that sends went on.
- `refused`: a send to a topic that takes none. Whether the client raised an error.
- `create`: sends to a topic that is not there. Whether it arrived.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TAG = "A"
COLOR = "blue"
LONG_BODY = "long" * 5000
"""20,000 bytes: every client compresses that; shown as `long`."""
SELECTED_QUEUE = 2
DELAY_LEVEL = 2
DELAY_MS = (1000, 60_000)
QUEUES = 4
NUMBERS = 40
REFUSED = 9
MANY = 100
EXPRESSION = "number BETWEEN 1 AND 3 AND TAGS = 'A' AND color IS NOT NULL"
RETRIES = 2
SEND_MS = 60_000
"""What a send may take where servers are not restarted: one that is given up and sent again may be
there twice.
"""
LOST_AFTER_S = 60.0
"""What an acknowledged message may take to be consumed."""
FLOW_S_MAX = 240.0
"""Clients notice only by their 30 s timers that a broker was restarted."""

SENT = {body: [TAG, "key-" + body, COLOR] for body in
        ("sync", "one-way", "async", "selected", "long", "delayed")}  # fmt: skip
EXPECTED: dict[str, Any] = {
    "send": SENT,
    "orderly": {str(q): list(range(q, NUMBERS, QUEUES)) for q in range(QUEUES)},
    "filter": ["A-0", "A-1", "C-0", "C-1"],
    "sql": [1, 2, 3],
    "pull": sorted(str(number) for number in range(NUMBERS)),
    "share": {"first": MANY // 2, "second": MANY // 2, "twice": 0},
    "retry": {"deliveries": RETRIES + 1, "topics": 1},
    "resume": {"first": list(range(10)), "second": list(range(10, 20))},
    "broker": {"lost": 0, "went on": True},
    "namesrv": {"lost": 0, "went on": True},
    "refused": True,
    "create": True,
    "batch": {
        "bodies": sorted(str(number) for number in range(NUMBERS)),
        "offsets": NUMBERS,
        "ids": NUMBERS,
        "offset ids": NUMBERS,
    },
    "lite-pull": sorted(str(number) for number in range(NUMBERS)),
    "broadcast": {"first": NUMBERS, "second": NUMBERS},
    "transaction": {
        "got": ["commit", "unknown-commit", "unknown-unknown-commit"],
        "asked": ["unknown-commit", "unknown-rollback", "unknown-unknown-commit"],
    },
    "request": ["re: 0", "re: 1", "re: 2"],
    "query": {"by key": ["wanted"], "by offset id": "wanted", "by id": "wanted"},
    "pop": {"bodies": sorted(str(number) for number in range(NUMBERS)), "refusals": 1},
    "reset": {"queues": QUEUES, "different": NUMBERS},
    "running-info": {"subscribed": 2, "has stacks": True, "members": 1},
}


# What a client cannot do is left out of its flow `send`.
WAYS_MISSING = {"ali-ons": ("one-way", "async", "selected")}


def check(client: str, mode: str, outcome: Any) -> None:
    """Asserts that a flow ended as it must; raises what it ended with."""
    if isinstance(outcome, BaseException):
        raise outcome
    expected = EXPECTED[mode]
    if mode == "send":
        least, most = DELAY_MS
        assert least <= outcome.pop("DELAY") <= most
        unable = WAYS_MISSING.get(client, ())
        expected = {body: facts for body, facts in SENT.items() if body not in unable}
        if "selected" in expected:
            assert outcome.pop("QUEUE") == SELECTED_QUEUE
    assert outcome == expected


def arguments() -> tuple[str, str, str]:
    """The flow, the name server's address, the name of topic and group."""
    mode, name_server, name = sys.argv[1:]
    return mode, name_server, name


def restart(server: str) -> None:
    """Have `broker` or `namesrv` killed and started again; returns when it can be used."""
    print("RESTART", server, flush=True)
    sys.stdin.readline()


def report(result: Any) -> None:
    """The result, for the test."""
    print("RESULT", json.dumps(result), flush=True)
