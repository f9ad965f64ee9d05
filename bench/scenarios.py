"""The shapes of load: each takes a running nsqd and gives the results of its measured parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import clients
import latency
import payloads
from clients import Share
from harness import Result, measure
from wires import PLAIN, Layers

from penstock.testing.daemons import Daemon

BATCH = 200
RDY = 2500
TOPIC = "bench"
HTTP_BATCH = 100
FANOUT = 8
LATENCY_S = 4
"""The delays of a second more or less say little: this is not shortened with ``--seconds``."""
PUSH: dict[str, object] = {"output_buffer_size": -1, "output_buffer_timeout": -1}
"""IDENTIFY without output buffering."""


@dataclass(frozen=True)
class Load:
    """How much: messages of the counted runs, seconds of the timed ones, body size in bytes."""

    messages: int
    seconds: float
    size: int


Run = Callable[[Daemon, Load], dict[str, Result]]


@dataclass(frozen=True)
class Scenario:
    """A shape of load; one with ``tls`` needs a daemon that has a certificate."""

    run: Run
    tls: bool = False


def publish_and_consume(daemon: Daemon, load: Load, *, mixed: bool) -> dict[str, Result]:
    """MPUB of 200 from 2 connections with no consumer; then 2 consumers drain it all."""
    name = "mixed" if mixed else "equal"
    lengths = payloads.sizes(mixed, BATCH, load.size)
    return {
        f"mpub 200, {name}": _publish(daemon, PLAIN, lengths, load.messages),
        f"consume, {name}": _consume(daemon, PLAIN, load.messages),
    }


def through_layers(daemon: Daemon, load: Load, *, name: str, layers: Layers) -> dict[str, Result]:
    """The same through TLS or a compression, a quarter as much; then 200 PUBs in each write."""
    messages = load.messages // 4
    body = payloads.json_bodies([load.size])[0]
    writes = messages // 2 // BATCH
    pipeline = layers.prepare(payloads.pub("pipelined", body) * BATCH)
    results = {
        f"{name}, mpub 200": _publish(daemon, layers, [load.size] * BATCH, messages),
        f"{name}, consume": _consume(daemon, layers, messages),
    }
    writers = [
        partial(clients.publish, daemon.tcp, layers, pipeline, BATCH, BATCH, part)
        for part in clients.spread(writes, 2)
    ]
    results[f"{name}, pub, 200 in flight"] = measure([daemon.pid], writers)
    return results


def _publish(daemon: Daemon, layers: Layers, lengths: list[int], messages: int) -> Result:
    payload = layers.prepare(payloads.mpub(TOPIC, payloads.json_bodies(lengths)))
    writers = [
        partial(clients.publish, daemon.tcp, layers, payload, 1, BATCH, part)
        for part in clients.spread(messages // BATCH, 2)
    ]
    return measure([daemon.pid], writers)


def _consume(daemon: Daemon, layers: Layers, messages: int) -> Result:
    count = messages // BATCH * BATCH
    reader = partial(clients.consume, [(daemon.tcp, "ch")] * 2, layers, TOPIC, RDY, count)
    return measure([daemon.pid], [reader])


def publish_single(daemon: Daemon, load: Load, *, connections: int) -> dict[str, Result]:
    """PUB, each waiting for its OK. Two connections are two processes, more of them share one."""
    payload = payloads.pub(TOPIC, payloads.json_bodies([load.size])[0])
    processes = connections if connections <= 2 else 1
    asker = partial(
        clients.ask_repeatedly,
        daemon.tcp,
        payload,
        1,
        False,
        connections // processes,
        load.seconds,
    )
    return {f"pub, {connections} connections": measure([daemon.pid], [asker] * processes)}


def publish_http(daemon: Daemon, load: Load) -> dict[str, Result]:
    """POST /pub on 16 keep-alive connections."""
    payload = payloads.http_pub(TOPIC, payloads.json_bodies([load.size])[0])
    asker = partial(clients.ask_repeatedly, daemon.http, payload, 1, True, 16, load.seconds)
    return {"http /pub, 16 connections": measure([daemon.pid], [asker])}


def publish_http_batches(daemon: Daemon, load: Load) -> dict[str, Result]:
    """POST /mpub of 100 on 4 keep-alive connections: a body a line, then each behind its size."""
    bodies = payloads.json_bodies([load.size] * HTTP_BATCH)
    results = {}
    for name, binary in (("text", False), ("binary", True)):
        payload = payloads.http_mpub(f"{TOPIC}-{name}", bodies, binary)
        asker = partial(
            clients.ask_repeatedly, daemon.http, payload, HTTP_BATCH, True, 4, load.seconds
        )
        results[f"http /mpub 100, {name}"] = measure([daemon.pid], [asker])
    return results


def fan_out(daemon: Daemon, load: Load) -> dict[str, Result]:
    """MPUB of 200 to a topic with 8 channels that are consumed meanwhile; deliveries count."""
    rounds = load.messages // FANOUT // BATCH
    payload = payloads.mpub(TOPIC, payloads.json_bodies([load.size] * BATCH))
    doors = [(daemon.tcp, f"ch{number}") for number in range(FANOUT)]
    deliveries = rounds * BATCH * FANOUT
    writer = partial(clients.publish, daemon.tcp, PLAIN, payload, 1, BATCH, rounds)
    reader = partial(clients.consume, doors, PLAIN, TOPIC, RDY, deliveries)
    return {
        f"1 topic, {FANOUT} channels": measure([daemon.pid], [partial(_uncounted, writer), reader])
    }


def _uncounted(client: Callable[..., Share], wait: clients.Wait) -> Share:
    """A client whose messages are counted by another."""
    return replace(client(wait=wait), messages=0)


Way = tuple[str, int, int, dict[str, object]]
"""Of consuming: its name, connections, RDY of each, features."""
WAYS: tuple[Way, ...] = (
    ("RDY 1", 1, 1, {}),
    ("RDY 100, 25 ms buffer", 1, 100, {"output_buffer_timeout": 25}),
    ("4 x RDY 100, no buffer", 4, 100, PUSH),
)


def latencies(
    daemon: Daemon, load: Load, rate: int, publishers: int, ways: Sequence[Way]
) -> dict[str, Result]:
    """So many PUBs a second by so many publishers, and when they reach a consumer."""
    each = rate // publishers
    results = {}
    for number, (name, connections, rdy, features) in enumerate(ways):
        topic = f"{TOPIC}{number}"
        writer = partial(
            latency.publish_paced, daemon.tcp, topic, load.size, each, each * LATENCY_S
        )
        reader = partial(
            latency.consume_timed, daemon.tcp, topic, connections, rdy, features,
            each * publishers * LATENCY_S,
        )  # fmt: skip
        results[f"delay, {name}"] = measure([daemon.pid], [*[writer] * publishers, reader])
    return results


def _layered(name: str, layers: Layers) -> Scenario:
    return Scenario(partial(through_layers, name=name, layers=layers), layers.tls)


SCENARIOS: dict[str, Scenario] = {
    "equal": Scenario(partial(publish_and_consume, mixed=False)),
    "mixed": Scenario(partial(publish_and_consume, mixed=True)),
    "pub2": Scenario(partial(publish_single, connections=2)),
    "pub50": Scenario(partial(publish_single, connections=50)),
    "http": Scenario(publish_http),
    "mpub": Scenario(publish_http_batches),
    "fanout": Scenario(fan_out),
    "latency": Scenario(partial(latencies, rate=1000, publishers=1, ways=WAYS)),
    "latency10k": Scenario(partial(latencies, rate=10_000, publishers=4, ways=WAYS[1:])),
    "plain": _layered("plain", PLAIN),
    "tls": _layered("tls", Layers(tls=True)),
    "snappy": _layered("snappy", Layers(compression="snappy")),
    "deflate": _layered("deflate", Layers(compression="deflate")),
    "tls-snappy": _layered("tls+snappy", Layers(tls=True, compression="snappy")),
}
