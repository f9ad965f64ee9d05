r"""Archive: raw topics to files, a folder for each topic, date and hour, each message exactly once.

Tasks write the files from Arrow, each named for the range of offsets that it holds and visible when
it is whole; the checkpoint holds the offsets. So a query that is killed goes on where it was, no
row is lost or doubled for any reader at any moment, and a lost checkpoint costs nothing. Run it
with ``penstock pipeline run archive`` or::

    spark-submit archive.py --topic events --to /data/lake --checkpoint /data/checkpoints/events \
        --lookupd-http-address 127.0.0.1:4161
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.pipelines import own
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.spec import Run, Sink, Source, Spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# `attempts` is always 1 in the log; what is not asked for is not sent to the JVM.
COLUMNS: Final = (
    "topic string, timestamp timestamp, node string, queue int, offset long, id string, body binary"
)
FOLDERS: Final = ("topic", "date", "hour")

_PARQUET: Final = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}


def pipeline(
    source: Mapping[str, str], to: str, checkpoint: str, format: str = "parquet"
) -> Pipeline:
    """The pipeline that archives. ``source`` are options of ``format("nsq")``.

    ``format`` is ``parquet``, or ``lines``: gzipped files with a body a line.
    """
    options = dict(source)
    if not {"startingoffsets", "startingtimestamp"} & {key.lower() for key in source}:
        options["startingOffsets"] = "earliest"
    if format == "lines":
        columns = "topic string, timestamp timestamp, body binary"
        sink = Sink("text", {"compression": "gzip", "path": to}, FOLDERS)
    else:
        columns, sink = COLUMNS, Sink("parquet", _PARQUET | {"path": to}, FOLDERS)
    run = Run(every_ms=1000, checkpoint=checkpoint)
    return Pipeline(Spec("archive", Source("nsq", options, columns), sink, run))


def start(
    spark: SparkSession,
    source: Mapping[str, str],
    to: str,
    checkpoint: str,
    trigger: dict[str, Any] | None = None,
) -> StreamingQuery:
    """Start archiving; ``trigger`` as for ``DataStreamWriter.trigger``.

    Raises SourceError when ``to`` holds an archive that belongs to another checkpoint.
    """
    return pipeline(source, to, checkpoint).start(spark, trigger)[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point that spark-submit runs."""
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
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help='a further option of format("nsq"), such as tls_root_ca_file=/etc/ca.pem',
    )
    given = parser.parse_args(arguments)
    source = {"topic": given.topic}
    source |= {name: value for name, _, value in (each.partition("=") for each in given.option)}
    if given.lookupd_http_address:
        source["lookupd_http_address"] = given.lookupd_http_address
    else:
        source["nsqd_http_address"] = given.nsqd_http_address
    trigger = {"availableNow": True} if given.available_now else None
    with own.alone(Sink("parquet", {"path": given.to})):
        spark = SparkSession.builder.appName("penstock-archive").getOrCreate()
        start(spark, source, given.to, given.checkpoint, trigger).awaitTermination()


if __name__ == "__main__":
    main()
