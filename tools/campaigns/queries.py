"""The program that the campaign of Spark kills: the queries in one Spark, each a promise.

spark-submit runs it, in a Python that has neither Penstock nor these tests. Run again with the same
folder it goes on. A query that failed is told of in a line and started again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.spark.errors import explain
from penstock.spark.pipelines import Pipeline, archive
from penstock.spark.pipelines.spec import ARROW, Run, Sink, Source, Spec
from penstock.spark.session import say_errors_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class Query:
    """A place that is read, a sink, and a promise: all that is stored, and if ``exact`` once."""

    topic: str
    place: str
    sink: str
    exact: bool = True


NSQ, ROCKETMQ = "events", "orders"
"""The topics that are read."""
CHANNEL: Final = "channel"
"""The place of the topic's channel, which is read as a consumer does."""
ARCHIVE: Final = "archive"
"""The sink whose files the tasks write, and the first query to it."""
INHERITED: Final = "inherited"
"""The other, which Spark's writer begins, as the version before did, and Arrow goes on with."""
QUERIES: Final = {
    ARCHIVE: Query(NSQ, "log", ARCHIVE),
    INHERITED: Query(NSQ, "log", ARCHIVE),
    "exact": Query(NSQ, "log", "nsq"),
    "copied": Query(NSQ, "log", "nsq", exact=False),
    "fetched": Query(ROCKETMQ, "broker's log", "parquet"),
    "pulled": Query(ROCKETMQ, "broker", "parquet"),
    "ordered": Query(NSQ, "log", "rocketmq"),
    "consumed": Query(NSQ, CHANNEL, "parquet", exact=False),
}
BY_OFFSET: Final = tuple(name for name, query in QUERIES.items() if query.place != CHANNEL)
"""Those that read logs."""
ARCHIVES: Final = [name for name, query in QUERIES.items() if query.sink in ("parquet", ARCHIVE)]
COPIES: Final = [name for name, query in QUERIES.items() if query.sink == "nsq"]
"""Those that write to a topic of their name."""
PLACES: Final = "places.json"
"""The file with the queries to run, the format and the options of each place, the options of the
sinks, and the writer of what is inherited.
"""
READ: Final = {"startingOffsets": "earliest", "timeout": "60"}
"""A node that is down is waited for."""
SMALL: Final = {"maxRecordsPerTrigger": "6000", "maxRecordsPerPartition": "2000"}
"""Batches of several tasks, and many of them."""
_COLUMNS: Final = "topic string, timestamp timestamp, body binary"
LARGE: Final = {"maxRecordsPerTrigger": "100000"}
"""What is left at the end takes few."""


class Queries:
    """The queries over the addresses that the campaign gave."""

    def __init__(self, spark: SparkSession, folder: Path, batches: Mapping[str, str]) -> None:
        self._spark = spark
        self._folder = folder
        self._batches = batches
        self._places = json.loads((folder / PLACES).read_text())
        self.names: list[str] = self._places["queries"]

    def start(self, name: str, **trigger: Any) -> StreamingQuery:
        """Start one, or start it again."""
        query = QUERIES[name]
        if query.sink == ARCHIVE:
            return self._start_archive(name, trigger)
        rows = self._rows(query, group=name)
        writer = rows.writeStream.queryName(name).trigger(**trigger).format(query.sink)
        writer = writer.option("checkpointLocation", str(checkpoint(self._folder, name)))
        if query.sink == "parquet":
            return writer.start(str(self._folder / name))
        if query.exact:
            writer = writer.option("exactlyOnce", "true")
        return writer.options(**self._places["sinks"][query.sink], timeout="60").start(name)

    def _start_archive(self, name: str, trigger: Mapping[str, Any]) -> StreamingQuery:
        # A group by chance: that of a checkpoint that is lost is in use for a minute.
        more = READ | dict(self._batches) | {"topic": QUERIES[name].topic, "groupIdPrefix": name}
        source = Source("nsq", self._places["log"]["options"] | more, _COLUMNS)
        to = {"path": str(self._folder / name)}
        writer = self._places["writer"] if name == INHERITED else ARROW
        sink = Sink("parquet", to, archive.FOLDERS, writer=writer)
        run = Run(0, str(checkpoint(self._folder, name)))
        (query,) = Pipeline(Spec(name, source, sink, run)).start(self._spark, trigger)
        return query

    def _rows(self, query: Query, group: str) -> DataFrame:
        place = self._places[query.place]
        own = READ | dict(self._batches) | {"group": group}
        if query.place == CHANNEL:
            staging = str(self._folder / f"{group}.staging")
            own = {key: own[key] for key in ("maxRecordsPerTrigger", "timeout")}
            own |= {"mode": "channel", "channel": group, "stagingLocation": staging}
        reader = self._spark.readStream.format(place["format"]).options(**own, **place["options"])
        return reader.load(query.topic).select("body")

    def export(self) -> None:
        """Write what a reader of each archive sees into one file beside it."""
        for name in filter(ARCHIVES.__contains__, self.names):
            folder = str(self._folder / name)
            if QUERIES[name].sink == ARCHIVE:  # for any reader, such as one that lists folders
                rows = ds.dataset(folder).to_table(columns=["body"])
            else:
                rows = self._spark.read.parquet(folder).toArrow()
            pq.write_table(rows, exported(self._folder, name))


def checkpoint(folder: Path, name: str) -> Path:
    """The checkpoint of a query."""
    return folder / f"{name}.checkpoint"


def exported(folder: Path, name: str) -> Path:
    """The file with all rows of an archive."""
    return folder / f"{name}.parquet"


def _keep_running(spark: SparkSession, queries: Queries) -> None:
    running = {name: _live(queries, name) for name in queries.names}
    while True:
        with suppress(StreamingQueryException):
            spark.streams.awaitAnyTermination()
        spark.streams.resetTerminated()
        for name, query in running.items():
            if not query.isActive:
                error = query.exception()
                print(f"FAILED {name}: {error and explain(error)}", flush=True)
                running[name] = _live(queries, name)


def _live(queries: Queries, name: str) -> StreamingQuery:
    return queries.start(name, processingTime="100 milliseconds")


def main() -> None:
    """Run the queries in this folder until killed, or, to ``finish``, all there is to read."""
    folder, finishing = Path(sys.argv[1]), sys.argv[2:] == ["finish"]
    spark = SparkSession.builder.getOrCreate()
    say_errors_once()
    queries = Queries(spark, folder, LARGE if finishing else SMALL)
    if not finishing:
        _keep_running(spark, queries)
    for query in [queries.start(name, availableNow=True) for name in queries.names]:
        query.awaitTermination()
    queries.export()
    spark.stop()


if __name__ == "__main__":
    main()
