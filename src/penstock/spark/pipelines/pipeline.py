"""A pipeline in Spark: source, parse, SQL and sink of its file as streaming queries.

from penstock.spark.pipelines import Pipeline
from penstock.spark.session import session

pipeline = Pipeline.from_file("api-metrics.toml")
queries = pipeline.start(session(settings=pipeline.settings))
queries[0].awaitTermination()
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.spark.cluster_options import cluster_options_of
from penstock.spark.errors import OptionError
from penstock.spark.pipelines import (
    adoption,
    column_pruning,
    direct,
    ends,
    own,
    parse,
    reports,
    sink_nodes,
)
from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.spec import Source, Spec, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from penstock.spark.archive.target import Target

OUTPUT = "output"
"""Observation of the rows that go to the sink: its metric is ``rows``."""

_POLL_S = 0.02
# Columns of a message that a letter about a row that does not parse is made of.
_LETTER_COLUMNS = "topic string, node string, queue int, offset long, id string, body binary"


class Pipeline:
    """One pipeline. Nothing of it is started before ``start``."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], variables: Mapping[str, str] | None = None
    ) -> Pipeline:
        """The pipeline of a TOML file. Raises PipelineFileError, which names file and line.

        ``variables`` fill ``${NAME}`` in the file, in place of the environment.
        """
        return cls(read(Document.load(path), variables))

    @property
    def settings(self) -> dict[str, str]:
        """Settings that its Spark session needs."""
        packages = ",".join(self.spec.run.packages)
        return dict(self.spec.run.settings) | (
            {"spark.jars.packages": packages} if packages else {}
        )

    def start(
        self, spark: SparkSession, trigger: Mapping[str, Any] | None = None
    ) -> list[StreamingQuery]:
        """Start its query, and behind it that of the rows that do not parse, if they have a topic.

        ``trigger`` is as of ``DataStreamWriter.trigger``, else the file's ``every``. Raises
        SourceError when the sink's folder belongs to another checkpoint.
        """
        from penstock.spark.listener import attach

        run = self.spec.run
        listener = attach(spark)
        if listener is not None:
            listener.expect(self.spec.name, reports.about(self.spec))
            listener.expect(f"{self.spec.name}.bad", reports.about_bad(self.spec))
        own.finish_compaction(self.spec.sink)
        main, bad = self._sources(spark)
        archive = self._archive(spark)
        if archive is not None:
            adoption.prepare(spark, archive, run.checkpoint)
            writers = [self._archive_writer(spark, archive)]
        else:
            own.require(spark, self.spec.sink.options.get("path"), run.checkpoint)
            writers = [self._writer(self.frame(spark, main), run.checkpoint)]
        if self.spec.parse.bad:
            writers.append(self._bad_writer(spark, bad, self.spec.parse.bad))
        given = dict(trigger or {"processingTime": f"{run.every_ms} milliseconds"})
        queries = [writers[0].trigger(**given).start()]
        try:
            for writer in writers[1:]:
                wait_for_sources(queries[-1])
                queries.append(writer.trigger(**given).start())
        except BaseException:
            # A pipeline runs as a whole: without the second query, rows that do not parse are lost.
            queries[0].stop()
            raise
        return queries

    def check(self, spark: SparkSession) -> DataFrame:
        """Have Spark's analyser look at it; the frame that goes to the sink.

        Raises SourceError for a column of [parse], or one that the source does not have or the sink
        does not write, and AnalysisException for what Spark refuses, in streams as well. No node is
        asked and nothing is read.
        """
        direct.require(self.spec)
        if self.spec.source.schema is not None:
            ends.check_source(self.spec.source, self.source_schema(spark))
        frame = self.frame(spark)
        jvm: Any = spark._jvm
        modes = jvm.org.apache.spark.sql.streaming.OutputMode
        mode = getattr(modes, self.spec.sink.output_mode.capitalize())()
        checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), mode)
        ends.check_sink(spark, self.spec.sink, frame.schema)
        return frame

    def frame(self, spark: SparkSession, source: Source | None = None) -> DataFrame:
        """The rows for the sink, as a stream; of another source if one is given.

        Raises OptionError for a source with a ``group`` that the SQL joins with itself.
        """
        source = source or self.spec.source
        chosen = source.schema or any(key.lower() == "columns" for key in source.options)
        if source.format == "nsq" and not chosen:
            source = replace(source, schema=self._needed(spark))
        frame = self.transformed(spark, self._source(spark, source))
        if source.reads_log and column_pruning.sources(frame) > 1:
            frame = self.transformed(spark, self._source(spark, self._with_groups(source)))
        return frame

    def transformed(self, spark: SparkSession, messages: DataFrame) -> DataFrame:
        """The rows for the sink that these messages make, as a stream or a batch.

        Without a query, a sink of messages gets those that parse as they are.
        """
        if self.spec.query is None and self.spec.sink.format in ("nsq", "rocketmq"):
            return parse.messages(messages, self.spec.parse)
        if direct.is_archive(self.spec):
            return direct.rows(messages, self.spec.sink)
        rows = parse.columns(messages, self.spec.parse)
        if self.spec.query is None:
            return rows
        rows.createOrReplaceTempView("input")
        return spark.sql(self.spec.query)

    def source_schema(self, spark: SparkSession) -> StructType:
        """The columns of its messages; the nodes of ``format("nsq")`` are not asked."""
        from pyspark.sql.types import StructType

        source = self.spec.source
        if source.schema is not None:
            schema = StructType.fromDDL(source.schema)
            assert isinstance(schema, StructType)
            return schema
        if source.format == "nsq":
            from penstock.spark.formats.nsq import NsqDataSource

            return NsqDataSource(dict(source.options)).schema()
        reader = spark.read.format(source.format).options(**source.options)
        return reader.load().schema

    def _needed(self, spark: SparkSession) -> str:
        """The columns of the messages that parse and SQL use, as DDL; at least one."""
        schema = self.source_schema(spark)
        names = column_pruning.columns(spark, schema, lambda frame: self.transformed(spark, frame))
        if self.spec.parse.watermark is not None:
            names.append(self.spec.parse.watermark[0].lower())  # as Spark, whatever its letters
        fields = [field for field in schema if field.name in (names or schema.fieldNames()[-1:])]
        return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)

    def _sources(self, spark: SparkSession) -> tuple[Source, Source]:
        """The source as the main query reads it, and as that of the bad rows does."""
        source, checkpoint = self.spec.source, self.spec.run.checkpoint
        if not self.spec.parse.bad:
            return source, source
        # Here, as it needs PyArrow, which a pipeline's file can be read without.
        from penstock.spark.pipelines import beginning

        main, bad = beginning.fixed(spark, source.options, checkpoint, _bad_checkpoint(checkpoint))
        return replace(source, options=main), replace(source, options=bad)

    def _source(self, spark: SparkSession, source: Source, suffix: str = "") -> DataFrame:
        options = dict(source.options)
        if source.reads_log:
            options = self._log_options(spark, source, suffix)
        reader = spark.readStream.format(source.format).options(**options)
        return (reader.schema(source.schema) if source.schema else reader).load()

    def _log_options(self, spark: SparkSession, source: Source, suffix: str = "") -> dict[str, str]:
        """The options of a source that reads the log, with a group of the pipeline's own."""
        options = self._nsq_options(spark, suffix) | dict(source.options)
        if suffix and "group" in source.options:
            options["group"] = source.options["group"] + suffix
        if any(key.lower() == "groupidprefix" for key in source.options):
            del options["group"]  # a name by chance is wanted
        return options

    def _with_groups(self, source: Source) -> Source:
        """The source for a query that reads it as several, each of which needs its own group."""
        if "group" in source.options:
            raise OptionError(
                "the SQL joins input with itself, so Spark reads the source more than once, and no "
                "two may have one group: give groupIdPrefix in place of group"
            )
        return replace(source, options={"groupIdPrefix": self.spec.name, **source.options})

    def _nsq_options(self, spark: SparkSession, suffix: str) -> dict[str, str]:
        """A group that belongs to this pipeline, and a split for each task that runs at once."""
        topic = self.spec.source.options.get("topic", "")
        name = own.group_name(topic, self.spec.run.checkpoint, self.spec.name + suffix)
        return {"group": name, "minPartitions": str(spark.sparkContext.defaultParallelism)}

    def _writer(self, frame: DataFrame, checkpoint: str) -> DataStreamWriter:
        from pyspark.sql import functions as F

        sink = self.spec.sink
        if sink.format == "http":
            from penstock.spark.http.writer import HttpDataSource

            frame.sparkSession.dataSource.register(HttpDataSource)
        options = sink.options
        if direct.is_archive(self.spec):
            options = {**direct.SPARK_OPTIONS, **options}
        if sink.format == "nsq":
            options = sink_nodes.fixed(frame.sparkSession, options, checkpoint)
        elif sink.format == "rocketmq":
            from penstock.spark.sink.rocketmq.rocketmq_sink_settings import RocketmqSinkSettings

            parsed = RocketmqSinkSettings.parse(options)
            if parsed.exactly_once:
                sink_nodes.require_same(frame.sparkSession, parsed.nodes, checkpoint)
        counted = frame.observe(OUTPUT, F.count(F.lit(1)).alias("rows"))
        writer = counted.writeStream.format(sink.format).outputMode(sink.output_mode)
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
        return (
            writer.options(**options)
            .option("checkpointLocation", checkpoint)
            .queryName(self.spec.name)
        )

    def _archive(self, spark: SparkSession) -> Target | None:
        """The archive that is written from Arrow, if this is one."""
        direct.require(self.spec)
        if not direct.is_archive(self.spec):
            return None
        columns = self.source_schema(spark).fieldNames()
        return direct.target(spark, self.spec, tuple(columns))

    def _archive_writer(self, spark: SparkSession, archive: Target) -> DataStreamWriter:
        from pyspark.sql import functions as F

        files = direct.frame(spark, self._log_options(spark, self.spec.source), archive)
        for observation in (parse.INPUT, OUTPUT):
            files = files.observe(observation, F.sum("rows").alias("rows"))
        # A row is a file that is in its place: there is nothing to do with it.
        writer = files.writeStream.format("noop").queryName(self.spec.name)
        return writer.option("checkpointLocation", self.spec.run.checkpoint)

    def _exactly_once(self) -> dict[str, str]:
        """The promise of an nsq sink, which rows that do not parse share."""
        given = self.spec.sink.options if self.spec.sink.format == "nsq" else {}
        return {key: each for key, each in given.items() if key.lower() == "exactlyonce"}

    def _bad_writer(self, spark: SparkSession, source: Source, topic: str) -> DataStreamWriter:
        """A query for itself: the main one may have made groups of the rows, or windows."""
        options = {key: each for key, each in source.options.items() if key.lower() != "columns"}
        source = Source("nsq", options, _LETTER_COLUMNS)
        assert self.spec.parse.json is not None
        bad = parse.bad_rows(self._source(spark, source, ".bad"), self.spec.parse.json)
        checkpoint = _bad_checkpoint(self.spec.run.checkpoint)
        given = (
            cluster_options_of(self.spec.source.options) | {"topic": topic} | self._exactly_once()
        )
        return (
            parse.letters(bad)
            .writeStream.format("nsq")
            .options(**sink_nodes.fixed(spark, given, checkpoint))
            .option("checkpointLocation", checkpoint)
            .queryName(f"{self.spec.name}.bad")
        )


def _bad_checkpoint(checkpoint: str) -> str:
    return f"{checkpoint}/bad"


def wait_for_sources(query: StreamingQuery) -> None:
    """Wait until Spark has made the sources of a query, or the query has failed.

    Spark keeps the environment of a data source in Python in one map for all queries, and fills it
    without a lock when it makes a source. Two at once can damage the map; it then refuses each
    batch with "Task not serializable".
    """
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(_POLL_S)
