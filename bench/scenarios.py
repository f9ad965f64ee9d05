"""The shapes of load: each takes a running nsqd and gives the results of its measured parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import clients
from harness import Result, measure

from penstock.testing.daemons import Daemon

BATCH = 200
RDY = 2500
TOPIC = "bench"


@dataclass(frozen=True)
class Load:
    """How much: messages of the counted runs, seconds of the timed ones, body size in bytes."""

    messages: int
    seconds: float
    size: int


Scenario = Callable[[Daemon, Load], dict[str, Result]]


def publish_and_consume(daemon: Daemon, load: Load, *, mixed: bool) -> dict[str, Result]:
    """MPUB of 200 from 2 connections with no consumer; then 2 consumers drain it all."""
    name = "mixed" if mixed else "equal"
    bodies = clients.sizes(mixed, BATCH, load.size)
    payload = clients.mpub_payload(TOPIC, bodies)
    rounds = load.messages // BATCH
    writers = [
        partial(clients.publish_batches, daemon.tcp, payload, BATCH, part)
        for part in clients.spread(rounds, 2)
    ]
    published = measure(daemon.pid, writers)
    reader = partial(clients.consume, daemon.tcp, TOPIC, 2, RDY, rounds * BATCH)
    consumed = measure(daemon.pid, [reader])
    return {f"mpub 200, {name}": published, f"consume, {name}": consumed}


def publish_single(daemon: Daemon, load: Load, *, connections: int) -> dict[str, Result]:
    """PUB, each waiting for its OK. Two connections are two processes, more of them share one."""
    payload = clients.pub_payload(TOPIC, load.size)
    processes = connections if connections <= 2 else 1
    asker = partial(
        clients.ask_repeatedly,
        daemon.tcp,
        payload,
        False,
        connections // processes,
        load.seconds,
    )
    return {f"pub, {connections} connections": measure(daemon.pid, [asker] * processes)}


def publish_http(daemon: Daemon, load: Load) -> dict[str, Result]:
    """POST /pub on 16 keep-alive connections."""
    payload = clients.http_payload(TOPIC, load.size)
    asker = partial(clients.ask_repeatedly, daemon.http, payload, True, 16, load.seconds)
    return {"http /pub, 16 connections": measure(daemon.pid, [asker])}


SCENARIOS: dict[str, Scenario] = {
    "equal": partial(publish_and_consume, mixed=False),
    "mixed": partial(publish_and_consume, mixed=True),
    "pub2": partial(publish_single, connections=2),
    "pub50": partial(publish_single, connections=50),
    "http": publish_http,
}
