"""Archive: raw topics to Parquet, partitioned by topic, date and hour, each message exactly once.

The checkpoint holds the log offsets and the sink's own log the finished files, so a query that is
killed goes on where it was and no row is lost or doubled for readers that respect
``_spark_metadata`` (Spark does). Run it with ``penstock pipeline run archive`` or::

    spark-submit archive.py --topic events --to /data/lake --checkpoint /data/checkpoints/events \\
        --lookupd-http-address 127.0.0.1:4161
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# `attempts` is always 1 in the log; what is not asked for is not sent to the JVM.
COLUMNS = (
    "topic string, timestamp timestamp, node string, queue int, offset long, id string, body binary"
)

# A dictionary of bodies, ids or offsets never pays, as each value is its own, and smallest and
# largest body or id tell no reader which files to skip.
_PARQUET = {
    "compression": "zstd",
    "parquet.enable.dictionary#body": "false",
    "parquet.enable.dictionary#id": "false",
    "parquet.enable.dictionary#offset": "false",
    "parquet.column.statistics.enabled#body": "false",
    "parquet.column.statistics.enabled#id": "false",
    "parquet.compression.codec.zstd.level": "1",
}


def messages(spark: SparkSession, source: Mapping[str, str]) -> DataFrame:
    """The stream of messages with the columns it is partitioned by."""
    from pyspark.sql import functions as F

    stream = spark.readStream.format("nsq").schema(COLUMNS).options(**source).load()
    return stream.withColumns({"date": F.to_date("timestamp"), "hour": F.hour("timestamp")})


def archive(
    frame: DataFrame, to: str, checkpoint: str, trigger: dict[str, Any] | None = None
) -> DataStreamWriter:
    """The query, ready to start; ``trigger`` as for ``DataStreamWriter.trigger``."""
    return (
        frame.writeStream.format("parquet")
        .partitionBy("topic", "date", "hour")
        .options(**_PARQUET)
        .option("path", to)
        .option("checkpointLocation", checkpoint)
        .queryName("archive")
        .trigger(**(trigger or {"processingTime": "1 second"}))
    )


def start(
    spark: SparkSession,
    source: Mapping[str, str],
    to: str,
    checkpoint: str,
    trigger: dict[str, Any] | None = None,
) -> StreamingQuery:
    """Start archiving. ``source`` are options of ``format("nsq")``."""
    group = group_name(source["topic"], checkpoint)
    given = {"startingOffsets": "earliest", "group": group, **source}
    return archive(messages(spark, given), to, checkpoint, trigger).start()


def group_name(topic: str, checkpoint: str) -> str:
    """The broker-side group of one archive: the same whenever its checkpoint is resumed."""
    place = checkpoint if "://" in checkpoint else os.path.abspath(checkpoint)
    return f"archive-{hashlib.sha256(f'{topic} {place}'.encode()).hexdigest()[:12]}"


def main(arguments: Sequence[str] | None = None) -> None:
    """What spark-submit runs."""
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description="Archive topics as Parquet.")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--to", required=True)
    parser.add_argument("--checkpoint", required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--lookupd-http-address")
    where.add_argument("--nsqd-http-address")
    parser.add_argument("--available-now", action="store_true")
    given = parser.parse_args(arguments)
    source = {"topic": given.topic}
    if given.lookupd_http_address:
        source["lookupd_http_address"] = given.lookupd_http_address
    else:
        source["nsqd_http_address"] = given.nsqd_http_address
    trigger = {"availableNow": True} if given.available_now else None
    spark = SparkSession.builder.appName("penstock-archive").getOrCreate()
    start(spark, source, given.to, given.checkpoint, trigger).awaitTermination()


if __name__ == "__main__":
    main()
