"""How fast the archive pipeline goes from the log to Parquet: ``python bench/archive.py``.

Publishes messages of one size to a fresh nsqd, then archives them with Trigger.AvailableNow, in
micro-batches, on ``local[*]``. The first micro-batches compile the JVM's code, so they are told
apart from the steady ones. Every run counts the rows in the Parquet.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import tempfile
import time
from pathlib import Path

from penstock.nsq.protocol import encode
from penstock.spark.pipelines import archive
from penstock.spark.read.progress import BatchDone, Follower
from penstock.spark.session import session, stop
from penstock.testing.daemons import run_nsqd

CHUNK = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--size", type=int, default=200, help="bytes of a body")
    parser.add_argument("--mixed", action="store_true", help="bodies of different sizes")
    parser.add_argument("--per-batch", type=int, default=1_000_000, help="rows of a micro-batch")
    given = parser.parse_args()
    with run_nsqd() as nsqd, tempfile.TemporaryDirectory(prefix="bench-archive-") as folder:
        started = time.perf_counter()
        publish(nsqd.tcp, given.rows, given.size, given.mixed)
        elapsed = time.perf_counter() - started
        print(f"published {given.rows:,} messages of {given.size} bytes in {elapsed:.1f} s")
        run(nsqd.http, Path(folder), given.rows, given.per_batch)


def run(nsqd_http: str, folder: Path, rows: int, per_batch: int) -> None:
    """Archive everything and print what it took."""
    with (folder / "spark.log").open("wb") as log:
        spark = session(log=log)
    started = time.perf_counter()
    source = {
        "topic": "bench",
        "nsqd_http_address": nsqd_http,
        "maxRecordsPerTrigger": str(per_batch),
    }
    lake = folder / "lake"
    query = archive.start(
        spark, source, str(lake), str(folder / "checkpoint"), {"availableNow": True}
    )
    follower = Follower(query)
    done: list[BatchDone] = []
    while query.isActive:
        time.sleep(0.1)
        done += follower.finished()
    done += follower.finished()
    query.awaitTermination()
    elapsed = time.perf_counter() - started
    for batch in done:
        print(f"  batch {batch.batch}: {batch.rows:,} rows, {batch.rows_per_s:,.0f} rows/s")
    steady = [batch.rows_per_s for batch in done[1:]] or [done[0].rows_per_s]
    found = spark.read.parquet(str(lake)).count()
    print(f"whole query, with start and compiling: {rows / elapsed:,.0f} rows/s")
    print(f"after the first micro-batch, median: {statistics.median(steady):,.0f} rows/s")
    print(f"rows in Parquet: {found:,} of {rows:,}, {size_of(lake) / rows:.1f} bytes each")
    stop(spark)
    if found != rows:
        raise SystemExit("rows are missing or doubled")


def publish(address: str, rows: int, size: int, mixed: bool, topic: str = "bench") -> None:
    """MPUBs of half-random text; no body comes twice, so that no dictionary of bodies pays."""
    chance = random.Random(1)
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(encode.MAGIC_V2)
        answers = connection.makefile("rb")
        for start in range(0, rows, CHUNK):
            bodies = make_bodies(chance, start, min(CHUNK, rows - start), size, mixed)
            connection.sendall(encode.multi_publish(topic, bodies))
            if answers.read(10)[8:] != b"OK":
                raise SystemExit("nsqd refused a publish")


def make_bodies(
    chance: random.Random, first: int, count: int, size: int, mixed: bool
) -> list[bytes]:
    """JSON-like bodies of ``size`` bytes, or with ``mixed`` of 75-100 % of that."""
    text = chance.randbytes(count * size // 2).hex().encode()
    cut = size // 4 if mixed else 1
    heads = (b'{"seq":%d,"text":"' % number for number in range(first, first + count))
    return [
        (head + text[at * size : (at + 1) * size])[: size - chance.randrange(cut)]
        for at, head in enumerate(heads)
    ]


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    main()
