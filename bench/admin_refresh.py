"""What a refresh of nsqadmin's history costs: a made-up cluster of 10 nodes, 1,000 topics, 10
channels each.

    python bench/admin_refresh.py [--topics 1000] [--channels 10] [--nodes 10] [--refreshes 10]

An nsqadmin refreshes every few seconds, with one watcher of /api/events. Printed: its processor
time a refresh, its memory, the size of the events.
"""

from __future__ import annotations

import argparse
import http.client
import time

from harness import resident_mb, server_cpu_s
from made_up_cluster import add_shape, made_up_cluster, shape_of

from penstock.testing import run_nsqadmin

INTERVAL_S = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_shape(parser)
    parser.add_argument("--refreshes", type=int, default=10)
    args = parser.parse_args()
    interval = f"--history-interval={INTERVAL_S}s"
    with (
        made_up_cluster(shape_of(args)) as cluster,
        run_nsqadmin(f"--lookupd-http-address={cluster.lookupd}", interval) as admin,
    ):
        connection = http.client.HTTPConnection(admin.http, timeout=60)
        connection.request("GET", "/api/events")
        events = connection.getresponse()
        sizes = []
        before = began = 0.0
        for number in range(args.refreshes + 2):
            size = sum(map(len, iter(events.readline, b"\n")))
            sizes.append(size)
            if number == 1:  # the first refresh finds rows for everything
                before, began = server_cpu_s(admin.pid), time.monotonic()
                first = resident_mb(admin.pid)
        spent = server_cpu_s(admin.pid) - before
        took = time.monotonic() - began
        print(shape_of(args))
        print(f"processor time a refresh: {spent / args.refreshes * 1000:.0f} ms ({took:.0f} s)")
        print(f"memory after one refresh {first:.0f} MB, {args.refreshes} later "
              f"{resident_mb(admin.pid):.0f} MB; an event {sizes[-1] / 1e6:.2f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
