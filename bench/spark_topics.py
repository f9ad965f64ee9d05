"""What a Spark query costs beside the driver where it reads very many topics: 20 nodes x 500.

The nodes are one process that answers as nsqd does, and costs nothing here: what counts is the
processor time of the planner, which Spark runs beside the driver. No Spark is started.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pickle
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.spark.read.stream import StreamReader
from penstock.spark.source_settings import SourceSettings
from tools.harness.fake_log_server import FakeLogServer

COLUMNS = ("body", "offset")
ROWS = 3
"""Messages of each topic of a batch."""
IDLE_S = 30.0


def serve(nodes: int, topics: int, pipe: Connection) -> None:
    """The nodes; each word from the pipe publishes to all topics."""
    with ExitStack() as stack:
        servers = [stack.enter_context(FakeLogServer()) for _ in range(nodes)]
        while True:
            for number, server in enumerate(servers):
                for topic in range(topics):
                    server.queue(f"topic-{number:02}-{topic:03}").append([b"x" * 200] * ROWS)
            pipe.send([server.address for server in servers])
            pipe.recv()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--topics", type=int, default=500, help="topics of each node")
    given = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    servers = multiprocessing.Process(
        target=serve, args=(given.nodes, given.topics, theirs), daemon=True
    )
    servers.start()
    options = {
        "topic": "*", "nsqd_http_address": ",".join(ours.recv()), "startingOffsets": "earliest",
        "minPartitions": "2", "group": "bench", "timeout": "60",
    }  # fmt: skip
    print(f"{given.nodes * given.topics:,} places on {given.nodes} nodes, CPU of the planner")
    _measure(StreamReader(SourceSettings.parse(options, "stream"), COLUMNS), ours)
    servers.kill()


def _measure(reader: StreamReader, pipe: Connection) -> None:
    everything = ReadAllAvailable()
    start = _timed("initialOffset, groups made", reader.initialOffset)
    for name in ("first", "second"):
        end = _timed(f"latestOffset, {name} batch", reader.latestOffset, start, everything)
        splits = _timed("  partitions", reader.partitions, start, end)
        data = [_timed("  pickling", pickle.dumps, splits)]
        _timed("  commit", reader.commit, end)
        print(f"  {len(splits)} tasks, {sum(map(len, data)):,} bytes of them")
        print(f"  {len(json.dumps(end)):,} bytes of offsets in the checkpoint")
        pipe.send("publish")
        pipe.recv()
        start = end
    _idle(reader, reader.latestOffset(start, everything))


def _idle(reader: StreamReader, start: dict[str, Any]) -> None:
    reader.latestOffset(start, ReadAllAvailable())
    asked, cpu, began = 0, time.process_time(), time.monotonic()
    while time.monotonic() - began < IDLE_S:
        # As Spark's runner has them: JSON in, JSON out.
        json.dumps(reader.latestOffset(json.loads(json.dumps(start)), ReadAllAvailable()))
        asked += 1
    cpu, took = time.process_time() - cpu, time.monotonic() - began
    print(f"idle: asked {asked / took:.2f} times a second, {100 * cpu / took:.2f} % of a core")


def _timed(name: str, work: Callable[..., Any], *given: Any) -> Any:
    cpu, began = time.process_time(), time.monotonic()
    found = work(*given)
    cpu, took = time.process_time() - cpu, time.monotonic() - began
    print(f"{name:32} {cpu:6.3f} s of CPU, {took:6.3f} s in all", flush=True)
    return found


if __name__ == "__main__":
    main()
