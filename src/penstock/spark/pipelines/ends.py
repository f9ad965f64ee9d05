"""A pipeline's source and sink, checked as Spark checks them when a query starts.

No node is asked and no row is moved: sources and sinks of ours are made and thrown away, and files
are written without a row, into a temporary folder.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.errors import OptionError
from penstock.spark.pipelines.spec import FILES, Sink, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_MEMORY: Final = "memory"
"""A sink that Spark has for tests, without a source of this name."""

_STREAMED: Final = (
    "org.apache.spark.sql.sources.StreamSinkProvider",
    "org.apache.spark.sql.execution.datasources.FileFormat",
    "org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2",
)
"""Classes of Java whose heirs streams are written to, beside tables that say so."""


def check_source(source: Source, schema: StructType) -> None:
    """Raise OptionError for columns that a source of ours does not have."""
    if source.format == "nsq":
        from penstock.spark.formats.nsq import NsqDataSource

        NsqDataSource(dict(source.options)).streamReader(schema)
    elif source.format == "rocketmq":
        from penstock.spark.formats.rocketmq import RocketmqDataSource

        RocketmqDataSource(dict(source.options)).streamReader(schema)


def check_sink(spark: SparkSession, sink: Sink, schema: StructType) -> None:
    """Raise OptionError for columns that a sink of ours does not write and for a format that no
    stream writes to, and Spark's own errors for what its file formats do not write and for a format
    that is not there.
    """
    if sink.format == "nsq":
        from penstock.spark.sink.columns import Columns
        from penstock.spark.sink.sink_settings import SinkSettings

        Columns.of(schema, SinkSettings.parse(sink.options).topic)
    elif sink.format == "rocketmq":
        from penstock.spark.sink.rocketmq.writer import output
        from penstock.spark.sink.writer import StreamWriter

        StreamWriter(output(sink.options, schema))
    elif sink.format == "http":
        from penstock.spark.http.http_settings import HttpSettings as HttpSettings
        from penstock.spark.http.writer import body_column

        body_column(schema, HttpSettings.parse(sink.options).url)
    elif sink.format in FILES:
        _write_no_row(spark, sink, schema)
    elif sink.format != _MEMORY:
        _require_stream_writer(spark, sink)


def _require_stream_writer(spark: SparkSession, sink: Sink) -> None:
    """Raise OptionError for a format that Spark reads, or writes in batches only, such as jdbc."""
    # Spark's API for Python does not tell what a format can do.
    jvm: Any = spark._jvm
    sources: Any = jvm.org.apache.spark.sql.execution.datasources.DataSource
    conf = spark._jsparkSession.sessionState().conf()
    provider = sources.lookupDataSourceV2(sink.format, conf)
    if provider.isDefined() and _writes_streams(jvm, provider.get(), sink):
        return
    kind = sources.lookupDataSource(sink.format, conf)
    if not any(jvm.java.lang.Class.forName(each).isAssignableFrom(kind) for each in _STREAMED):
        raise OptionError(
            f"[sink] no stream is written to format {sink.format}: a program of your own can write "
            "its batches there, by foreachBatch"
        )


def _writes_streams(jvm: Any, provider: Any, sink: Sink) -> bool:
    """True if a table of this provider takes streams, or is one that only a real run can make."""
    from py4j.protocol import Py4JError

    options = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(dict(sink.options))
    capability = jvm.org.apache.spark.sql.connector.catalog.TableCapability.STREAMING_WRITE
    try:
        return bool(provider.getTable(options).capabilities().contains(capability))
    except Py4JError:
        return True


def _write_no_row(spark: SparkSession, sink: Sink, schema: StructType) -> None:
    empty = spark.createDataFrame(spark.sparkContext.emptyRDD(), schema)
    options = {key: value for key, value in sink.options.items() if key.lower() != "path"}
    with TemporaryDirectory(prefix="penstock-validate-") as folder:
        writer = empty.write.format(sink.format).options(**options)
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
        writer.save(f"file://{folder}/files")
