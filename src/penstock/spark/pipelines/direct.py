"""Archives among pipelines: messages into files as they are, which Arrow can write without Spark.

That is a pipeline that reads the log and has neither SQL nor [parse], with a sink of ``parquet`` or
``text`` (a body a line) whose folders are a message's place and time. What only Spark's writer can
do is left to it: its own options, codecs and file systems.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.errors import OptionError
from penstock.spark.pipelines import own
from penstock.spark.pipelines.spec import ARROW, SPARK, Parse, Sink, Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.archive.target import Target

FOLDERS: Final = ("topic", "node", "queue", "date", "hour")
"""Columns that folders may be named for; ``date`` and ``hour`` are made of the timestamp."""
_LEVEL: Final = "parquet.compression.codec.zstd.level"
_OPTIONS: Final = {"parquet": ("path", "compression", _LEVEL), "text": ("path", "compression")}
# Spark's words for codecs, and pyarrow's.
_CODECS: Final = {
    "parquet": {"snappy": "snappy", "zstd": "zstd", "gzip": "gzip", "lz4_raw": "lz4",
                "brotli": "brotli", "none": "none", "uncompressed": "none"},
    "text": {"gzip": "gzip", "none": "none", "uncompressed": "none"},
}  # fmt: skip
_OF_COLUMNS: Final = ("columns", "includeorigin")
_USUAL: Final = {"parquet": "snappy", "text": "none"}


# For Spark's writer: what is of use only to readers that look for single bodies or ids costs time.
SPARK_OPTIONS: Final = {
    "parquet.enable.dictionary#body": "false",
    "parquet.enable.dictionary#id": "false",
    "parquet.enable.dictionary#offset": "false",
    "parquet.column.statistics.enabled#body": "false",
    "parquet.column.statistics.enabled#id": "false",
}


def is_archive(spec: Spec) -> bool:
    """True for messages into files as they are."""
    return (
        spec.source.reads_log
        and spec.query is None
        and spec.parse == Parse()
        and spec.sink.format in _OPTIONS
    )


def rows(messages: DataFrame, sink: Sink) -> DataFrame:
    """The rows of an archive's files, with the columns of its folders, for Spark to write."""
    from pyspark.sql import functions as F

    of_time = {"date": F.to_date("timestamp"), "hour": F.hour("timestamp")}
    for name in sink.partition_by:
        if name in of_time and name not in messages.columns:
            messages = messages.withColumn(name, of_time[name])
    if sink.format != "text":
        return messages
    return messages.select(F.col("body").cast("string").alias("value"), *sink.partition_by)


def only_spark(spec: Spec) -> str:
    """The first thing that only Spark's writer can do; empty if Arrow can write the archive."""
    sink = spec.sink
    for key in sink.options:
        if key.lower() not in _OPTIONS[sink.format]:
            return f"option {key}"
    for name in sink.partition_by:
        if name not in FOLDERS:
            return f"partitionBy = {name}"
    codec = _given(sink).get("compression", _USUAL[sink.format])
    return "" if codec.lower() in _CODECS[sink.format] else f"compression = {codec}"


def require(spec: Spec) -> None:
    """Raise OptionError for ``writer = "arrow"`` that cannot be."""
    if spec.sink.writer != ARROW:
        return
    if not is_archive(spec):
        raise OptionError(
            '[sink] writer = "arrow" is for messages of format nsq as they are: without [sql] and '
            "[parse], into parquet or text"
        )
    if why := only_spark(spec):
        raise OptionError(f'[sink] writer = "arrow" cannot have {why}: leave one of the two out')


def target(spark: SparkSession, spec: Spec, columns: tuple[str, ...]) -> Target | None:
    """The archive to write from Arrow; None where Spark writes. ``columns`` are the source's.

    Raises OptionError for a place that pyarrow does not know; what ``require`` refuses is not here.
    """
    if not is_archive(spec) or spec.sink.writer == SPARK:
        return None
    given = _given(spec.sink)
    root = _root(spark, given["path"])
    if only_spark(spec) or not (own.is_local(root) or spec.sink.writer == ARROW):
        return None
    return _target(spark, spec, root, columns)


def _target(spark: SparkSession, spec: Spec, root: str, columns: tuple[str, ...]) -> Target:
    # Here, as they need PyArrow, which a pipeline's file can be read without.
    from penstock.spark.archive.store import serves
    from penstock.spark.archive.target import Target, zone_of

    sink, given = spec.sink, _given(spec.sink)
    if not serves(root):
        raise OptionError(
            f'[sink] writer = "arrow": pyarrow has no file system for {root}; leave it out, and '
            "Spark writes there"
        )
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    zone_of(zone)
    codec = _CODECS[sink.format][given.get("compression", _USUAL[sink.format]).lower()]
    level = given.get(_LEVEL)
    kept = tuple(name for name in columns if name not in sink.partition_by)
    return Target(
        root,
        sink.format,
        ("body",) if sink.format == "text" else kept,
        sink.partition_by,
        codec,
        int(level) if level and codec == "zstd" else None,
        zone,
    )


def frame(spark: SparkSession, options: Mapping[str, str], target: Target) -> DataFrame:
    """A stream that has a row for each file that is in its place, from these options of nsq."""
    from penstock.spark.archive.source import TARGET, ArchiveDataSource

    spark.dataSource.register(ArchiveDataSource)
    chosen = {key: value for key, value in options.items() if key.lower() not in _OF_COLUMNS}
    reader = spark.readStream.format(ArchiveDataSource.name())
    return reader.options(**chosen, **{TARGET: target.dump()}).load()


def _given(sink: Sink) -> dict[str, str]:
    return {key.lower(): value for key, value in sink.options.items()}


def _root(spark: SparkSession, path: str) -> str:
    """The folder, with the file system where Spark would find it: a plain path on this machine."""
    if not own.is_local(path):
        return path
    jvm: Any = spark._jvm
    found = jvm.org.apache.hadoop.fs.Path(path)
    uri = own.file_system(spark, found).makeQualified(found).toUri()
    return str(uri.getPath() if uri.getScheme() == "file" else uri.toString())
