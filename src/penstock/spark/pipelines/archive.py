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
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.spark.errors import SourceError

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
    """Start archiving. ``source`` are options of ``format("nsq")``.

    Raises SourceError when ``to`` holds an archive that belongs to another checkpoint.
    """
    from penstock.spark.listener import attach

    require_own(to, _files(spark, to, "_spark_metadata"), _files(spark, checkpoint, "offsets"))
    group = group_name(source["topic"], checkpoint)
    parallelism = str(spark.sparkContext.defaultParallelism)
    given = {
        "startingOffsets": "earliest", "group": group, "minPartitions": parallelism, **source,
    }  # fmt: skip
    attach(spark, given)
    return archive(messages(spark, given), to, checkpoint, trigger).start()


def require_own(to: str, written: Iterable[str], planned: Iterable[str]) -> None:
    """Raise SourceError when the sink's log has batches that the checkpoint has not planned yet.

    The sink skips batches that it has in its log, and messages in them would be lost. A query that
    is killed between the two logs is let through: it plans a batch before it writes it.
    """
    if _last_batch(written) > _last_batch(planned):
        raise SourceError(
            f"{to} already holds an archive made with another checkpoint; "
            "give that checkpoint or an empty folder"
        )


def _last_batch(names: Iterable[str]) -> int:
    """The highest batch among the files of a log of Spark's (``7``, ``9.compact``), or -1."""
    batches = (name.removesuffix(".compact") for name in names)
    return max((int(batch) for batch in batches if batch.isdecimal()), default=-1)


def _files(spark: SparkSession, folder: str, log: str) -> list[str]:
    """What is in ``folder/log``, found as Spark finds it: on any of Hadoop's file systems."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder, log)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(path):
        return []
    return [str(status.getPath().getName()) for status in files.listStatus(path)]


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
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help='a further option of format("nsq"), such as tls_root_ca_file=/etc/ca.pem',
    )  # fmt: skip
    given = parser.parse_args(arguments)
    source = {"topic": given.topic}
    source |= {name: value for name, _, value in (each.partition("=") for each in given.option)}
    if given.lookupd_http_address:
        source["lookupd_http_address"] = given.lookupd_http_address
    else:
        source["nsqd_http_address"] = given.nsqd_http_address
    trigger = {"availableNow": True} if given.available_now else None
    spark = SparkSession.builder.appName("penstock-archive").getOrCreate()
    start(spark, source, given.to, given.checkpoint, trigger).awaitTermination()


if __name__ == "__main__":
    main()
