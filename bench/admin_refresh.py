"""What a refresh of nsqadmin's history costs: a cluster of 10 made-up nodes, 1,000 topics, 10
channels each.

    python bench/admin_refresh.py [--topics 1000] [--channels 10] [--nodes 10] [--refreshes 10]

The nodes are served by another process; an nsqadmin refreshes every few seconds, with one watcher
of /api/events. Printed: its processor time a refresh, its memory, the size of the events.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path

from penstock.net import tcp
from penstock.net.http import HttpServer
from penstock.nsq.http_api import NSQ_HEADER, NsqRouter, Response
from penstock.testing import run_nsqadmin

INTERVAL_S = 5


def stats(topics: int, channels: int, round_number: int) -> bytes:
    """An nsqd's answer; every figure is another in the next round."""
    latency = {"count": 0, "percentiles": None}
    return json.dumps(
        {
            "version": "1.3.0",
            "health": "OK",
            "start_time": 1,
            "topics": [
                {
                    "topic_name": f"topic-{topic:04}",
                    "channels": [
                        {
                            "channel_name": f"channel-{channel}",
                            "depth": 10 * round_number + channel,
                            "backend_depth": 0,
                            "in_flight_count": channel,
                            "deferred_count": 0,
                            "message_count": 1000 * round_number + topic,
                            "requeue_count": round_number,
                            "timeout_count": round_number,
                            "client_count": 1,
                            "clients": None,
                            "paused": False,
                            "e2e_processing_latency": latency,
                        }
                        for channel in range(channels)
                    ],
                    "depth": 0,
                    "backend_depth": 0,
                    "message_count": 1000 * round_number + topic,
                    "message_bytes": 0,
                    "paused": False,
                    "e2e_processing_latency": latency,
                }
                for topic in range(topics)
            ],
        },
        separators=(",", ":"),
    ).encode()


def serve(told: Connection, topics: int, channels: int, nodes: int) -> None:
    """The nodes and their nsqlookupd; tells its address and runs until it is ended."""
    bodies = [stats(topics, channels, number) for number in range(4)]
    headers = (("Content-Type", "application/json; charset=utf-8"), NSQ_HEADER)

    async def run() -> None:
        ports = []
        for _ in range(nodes):
            router = NsqRouter()
            answers = [Response(200, body, headers=headers) for body in bodies]
            count = iter(range(1 << 60))
            router.add("GET", "/stats", lambda request, count=count: answers[next(count) % 4])  # type: ignore[misc]  # noqa: B023
            ports.append((await tcp.listen(HttpServer(router), "127.0.0.1:0")).port)
        router = NsqRouter()
        found = [
            {"broadcast_address": "127.0.0.1", "hostname": f"h{port}", "tcp_port": port,
             "http_port": port, "version": "1.3.0", "topics": [], "tombstones": []}
            for port in ports
        ]  # fmt: skip
        router.v1("GET", "/nodes", lambda request: {"producers": found})
        told.send((await tcp.listen(HttpServer(router), "127.0.0.1:0")).port)
        await asyncio.sleep(3600)

    asyncio.run(run())


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("topics", 1000), ("channels", 10), ("nodes", 10), ("refreshes", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    here, there = multiprocessing.Pipe()
    shape = (args.topics, args.channels, args.nodes)
    server = multiprocessing.Process(target=serve, args=(there, *shape), daemon=True)
    server.start()
    lookupd = f"--lookupd-http-address=127.0.0.1:{here.recv()}"
    with run_nsqadmin(lookupd, f"--history-interval={INTERVAL_S}s") as admin:
        connection = http.client.HTTPConnection(admin.http, timeout=60)
        connection.request("GET", "/api/events")
        events = connection.getresponse()
        sizes = []
        before = began = 0.0
        for number in range(args.refreshes + 2):
            size = sum(map(len, iter(events.readline, b"\n")))
            sizes.append(size)
            if number == 1:  # the first refresh finds rows for everything
                before, began = processor_s(admin.pid), time.monotonic()
                first = resident_mb(admin.pid)
        spent = processor_s(admin.pid) - before
        took = time.monotonic() - began
        print(f"{args.topics} topics x {args.channels} channels x {args.nodes} nodes")
        print(f"processor time a refresh: {spent / args.refreshes * 1000:.0f} ms ({took:.0f} s)")
        print(f"memory after one refresh {first:.0f} MB, {args.refreshes} later "
              f"{resident_mb(admin.pid):.0f} MB; an event {sizes[-1] / 1e6:.2f} MB")  # fmt: skip
    server.terminate()


if __name__ == "__main__":
    main()
