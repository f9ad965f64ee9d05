"""A cluster that is too big for the machine: what nsqadmin asks of it is answered by one process.

Its nodes answer /stats, for all topics or one, its nsqlookupd /nodes, /topics, /lookup and
/channels. Every figure is another one each time. Nodes of ours answer packed where that is asked
for, as our nsqd does; with --go all are Go's, which do not know of that.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import struct
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import msgspec

from penstock.net import tcp
from penstock.net.http.server.service import HttpServer, Request, Response
from penstock.net.http.server.v1_api import NSQ_HEADER, ApiError, ApiRouter, Query
from penstock.nsq.nsqd.stats.packed_stats import FIGURES

ROUNDS = 4
"""So many answers are made beforehand; they come in turn."""
_JSON = (("Content-Type", "application/json; charset=utf-8"), NSQ_HEADER)
_NO_LATENCY = {"count": 0, "percentiles": None}


class Shape(NamedTuple):
    """How many topics, channels of each and nodes; each topic is on every node."""

    topics: int
    channels: int
    nodes: int
    go: bool = False

    def __str__(self) -> str:
        kind = "of Go's" if self.go else "of ours"
        return f"{self.topics} topics x {self.channels} channels x {self.nodes} nodes {kind}"


def topic_name(number: int) -> str:
    """Names sort as their numbers do."""
    return f"topic-{number:04}"


def channel_name(number: int) -> str:
    return f"channel-{number}"


def add_shape(parser: ArgumentParser) -> None:
    """The flags that say how big the cluster is."""
    for name, default in (("topics", 1000), ("channels", 10), ("nodes", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--go", action="store_true", help="nodes that answer as Go's nsqd")


def shape_of(args: Namespace) -> Shape:
    """What the flags said."""
    return Shape(args.topics, args.channels, args.nodes, args.go)


class Addresses(NamedTuple):
    """Of the HTTP APIs."""

    lookupd: str
    nodes: list[str]


@contextmanager
def made_up_cluster(shape: Shape) -> Iterator[Addresses]:
    """The cluster, until the end of the block."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(there, shape), daemon=True)
    server.start()
    try:
        lookupd, *nodes = (f"127.0.0.1:{port}" for port in here.recv())
        yield Addresses(lookupd, nodes)
    finally:
        server.terminate()
        server.join()


# --- what the daemons answer ---------------------------------------------------------------------


def _channel(topic: int, number: int, turn: int) -> dict[str, Any]:
    return {
        "channel_name": channel_name(number),
        "depth": 10 * turn + number,
        "backend_depth": 0,
        "in_flight_count": number,
        "deferred_count": 0,
        "message_count": 1000 * turn + topic,
        "requeue_count": turn,
        "timeout_count": turn,
        "client_count": 1,
        "clients": None,
        "paused": False,
        "e2e_processing_latency": _NO_LATENCY,
    }


def _topic(shape: Shape, number: int, turn: int) -> dict[str, Any]:
    return {
        "topic_name": topic_name(number),
        "channels": [_channel(number, channel, turn) for channel in range(shape.channels)],
        "depth": 0,
        "backend_depth": 0,
        "message_count": 1000 * turn + number,
        "message_bytes": 0,
        "paused": False,
        "e2e_processing_latency": _NO_LATENCY,
    }


def _stats(topics: list[dict[str, Any]]) -> bytes:
    answer = {"version": "1.3.0", "health": "OK", "start_time": 1, "topics": topics}
    return json.dumps(answer, separators=(",", ":")).encode()


def _packed(topics: list[dict[str, Any]]) -> bytes:
    """The same as our nsqd packs it."""
    rows = [*topics, *(channel for topic in topics for channel in topic["channels"])]
    flat = [int(row.get(name, 0)) for row in rows for name in FIGURES]
    answer = {
        "packed": struct.pack(f"<{len(flat)}q", *flat),
        "figures": FIGURES,
        "topics": [topic["topic_name"] for topic in topics],
        "channels": [[each["channel_name"] for each in topic["channels"]] for topic in topics],
        "latencies": [],
        "groups": [],
        "version": "1.3.0",
        "health": "OK",
        "start_time": 1,
    }
    return msgspec.json.encode(answer)


def _node(shape: Shape, answers: list[Response], packed: list[Response]) -> ApiRouter:
    """An nsqd."""
    turns = itertools.cycle(range(ROUNDS))

    def stats(request: Request) -> Response:
        query, turn = Query.parse(request.query), next(turns)
        wanted = query.get("topic")
        is_packed = query.get("packed") == "true" and not shape.go
        if wanted is None:
            return (packed if is_packed else answers)[turn]
        numbers = [number for number in range(shape.topics) if topic_name(number) == wanted]
        topics = [_topic(shape, number, turn) for number in numbers]
        return Response(200, (_packed if is_packed else _stats)(topics), headers=_JSON)

    router = ApiRouter()
    router.add("GET", "/stats", stats)
    return router


def _lookupd(shape: Shape, ports: list[int]) -> ApiRouter:
    """The nsqlookupd that knows them."""
    topics = [topic_name(number) for number in range(shape.topics)]
    channels = [channel_name(number) for number in range(shape.channels)]
    nodes = [
        {"remote_address": f"127.0.0.1:{port}", "hostname": f"node-{number}",
         "broadcast_address": "127.0.0.1", "tcp_port": port, "http_port": port, "version": "1.3.0"}
        for number, port in enumerate(ports)
    ]  # fmt: skip
    listed = [{**node, "tombstones": [False] * len(topics), "topics": topics} for node in nodes]

    def lookup(request: Request) -> Any:
        if Query.parse(request.query).get("topic") not in topics:
            raise ApiError(404, "TOPIC_NOT_FOUND")
        return {"channels": channels, "producers": nodes}

    router = ApiRouter()
    router.v1("GET", "/nodes", lambda request: {"producers": listed})
    router.v1("GET", "/topics", lambda request: {"topics": topics})
    router.v1("GET", "/channels", lambda request: {"channels": channels})
    router.v1("GET", "/lookup", lookup)
    return router


def _serve(told: Connection, shape: Shape) -> None:
    """Answers until it is ended; tells the ports, that of the nsqlookupd first."""
    rounds = [
        [_topic(shape, number, turn) for number in range(shape.topics)] for turn in range(ROUNDS)
    ]
    answers = [Response(200, _stats(topics), headers=_JSON) for topics in rounds]
    packed = [Response(200, _packed(topics), headers=_JSON) for topics in rounds]

    async def listen(router: ApiRouter) -> int:
        return (await tcp.listen(HttpServer(router), "127.0.0.1:0")).port

    async def run() -> None:
        ports = [await listen(_node(shape, answers, packed)) for _ in range(shape.nodes)]
        told.send([await listen(_lookupd(shape, ports)), *ports])
        await asyncio.Event().wait()

    asyncio.run(run())
