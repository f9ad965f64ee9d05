"""Speed of ``penstock.arrow.read``, rows a second of one process: ``python bench/arrow_read.py``.

Publishes messages of one size to a fresh nsqd, then reads the topic again and again, with two
columns and with all eight, and beside it what duckdb makes of the stream. The node is a process of
its own, whose time is in the rate and not in the reader's processor time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import duckdb
from archive import publish

import penstock.arrow
from penstock.testing.daemons import run_nsqd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--size", type=int, default=200, help="bytes of a body")
    parser.add_argument("--mixed", action="store_true", help="bodies of different sizes")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with run_nsqd() as nsqd:
        publish(nsqd.tcp, given.rows, given.size, given.mixed)
        for name, read in contenders(nsqd.http).items():
            measure(name, read, given.rows, given.rounds)


def contenders(address: str) -> dict[str, Callable[[], int]]:
    """Each reads the whole topic; the number of rows it saw."""

    def rows(columns: list[str] | None) -> int:
        stream = penstock.arrow.read("bench", columns=columns, nsqd_http_address=address)
        return sum(batch.num_rows for batch in stream)

    def counted() -> int:
        stream = penstock.arrow.read("bench", nsqd_http_address=address)
        found = duckdb.from_arrow(stream).aggregate(
            "count(*), max(timestamp), sum(octet_length(body))"
        )
        return int(found.fetchall()[0][0])

    return {
        "body and offset": lambda: rows(["body", "offset"]),
        "eight columns": lambda: rows(None),
        "duckdb, three figures": counted,
    }


def measure(name: str, read: Callable[[], int], rows: int, rounds: int) -> None:
    """Print the median and the range of rows a second, and the reader's time a row."""
    rates, spent = [], []
    for _ in range(rounds + 1):  # the first warms up
        started, before = time.perf_counter(), time.process_time()
        assert read() == rows
        rates.append(rows / (time.perf_counter() - started))
        spent.append((time.process_time() - before) / rows)
    del rates[0], spent[0]
    print(f"{name:22} {statistics.median(rates):12,.0f} rows/s  ({min(rates):,.0f} to "
          f"{max(rates):,.0f})  {statistics.median(spent) * 1e6:.2f} us of its CPU a row",
          flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
