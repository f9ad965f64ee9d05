"""The program that the campaign of Spark kills: four queries in one Spark, each a promise.

Run again with the same folder it goes on. It ends with a line for each query that failed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from penstock.spark.errors import explain
from penstock.spark.session import say_errors_once, session, stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NSQ, ROCKETMQ = "events", "orders"
"""The topics that are read."""
QUERIES: Final = {"archive": NSQ, "exact": NSQ, "copied": NSQ, "queues": ROCKETMQ}
"""The queries, each with its topic."""
ARCHIVES: Final = ("archive", "queues")
"""Those that write Parquet."""
COPIES: Final = ("exact", "copied")
"""Those that write to a topic of their name, exactly once the first."""
PLACES: Final = "places.json"
"""The file with the options that say where each topic is, and where the sinks are."""
TRIGGER: Final = {
    "maxRecordsPerTrigger": "6000", "maxRecordsPerPartition": "2000",
    "startingOffsets": "earliest", "timeout": "60",
}  # fmt: skip
"""Small batches of several tasks; a node that is down is waited for."""


class Queries:
    """The queries over the addresses that the campaign gave."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._places = json.loads((folder / PLACES).read_text())

    def start(self, trigger: Mapping[str, Any]) -> dict[str, StreamingQuery]:
        """Start them all."""
        return {name: self._start(name, trigger) for name in QUERIES}

    def _start(self, name: str, trigger: Mapping[str, Any]) -> StreamingQuery:
        writer = self._rows(name).writeStream.queryName(name).trigger(**trigger)
        writer = writer.option("checkpointLocation", str(checkpoint(self._folder, name)))
        if name in ARCHIVES:
            return writer.format("parquet").start(str(self._folder / name))
        if name == "exact":
            writer = writer.option("exactlyOnce", "true")
        return writer.format("nsq").options(**self._places["sinks"], timeout="60").start(name)

    def _rows(self, name: str) -> DataFrame:
        topic = QUERIES[name]
        reader = self._spark.readStream.format("rocketmq" if topic == ROCKETMQ else "nsq")
        reader = reader.options(**TRIGGER, **self._places[topic], group=name)
        return reader.load(topic).select("body")

    def export(self) -> None:
        """Write what a reader of each archive sees into one file beside it."""
        for name in ARCHIVES:
            rows = self._spark.read.parquet(str(self._folder / name)).toArrow()
            pq.write_table(rows, exported(self._folder, name))


def checkpoint(folder: Path, name: str) -> Path:
    """The checkpoint of a query."""
    return folder / f"{name}.checkpoint"


def exported(folder: Path, name: str) -> Path:
    """The file with all rows of an archive."""
    return folder / f"{name}.parquet"


def _until_one_fails(spark: SparkSession, queries: Mapping[str, StreamingQuery]) -> int:
    try:
        spark.streams.awaitAnyTermination()
    except Exception as error:
        failed = {name: query.exception() for name, query in queries.items()}
        for name, cause in failed.items():
            if cause is not None:
                print(f"FAILED {name}: {explain(cause)}", flush=True)
        if not any(failed.values()):
            print(f"FAILED: {explain(error)}", flush=True)
    return 1


def main() -> int:
    """Run the queries in this folder until one fails, or, to ``finish``, all there is to read."""
    folder, finishing = Path(sys.argv[1]), sys.argv[2:] == ["finish"]
    settings = {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    spark = session("local[2,4]", settings=settings)
    say_errors_once()
    running = Queries(spark, folder)
    if not finishing:
        return _until_one_fails(spark, running.start({"processingTime": "100 milliseconds"}))
    for query in running.start({"availableNow": True}).values():
        query.awaitTermination()
    running.export()
    stop(spark)
    return 0


if __name__ == "__main__":
    sys.exit(main())
