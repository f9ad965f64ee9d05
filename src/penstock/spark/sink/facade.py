"""From Spark's options and a frame's schema to a writer; what does not fit is refused here."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from penstock.spark.errors import OptionError
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.settings import Settings
from penstock.spark.sink.writer import BatchWriter, NsqOutput, StreamWriter


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of ``df.write``. Raises OptionError."""
    if overwrite:
        raise OptionError('messages of a topic cannot be overwritten: use mode("append")')
    settings = Settings.parse(options)
    settings.require_fixed_nodes()
    settings.require_writer(streaming=False)
    return BatchWriter(NsqOutput(settings, Columns.of(schema, settings.topic)))


def stream_writer(options: Mapping[str, str], schema: StructType) -> StreamWriter:
    """The writer of ``df.writeStream``, in any output mode. Raises OptionError."""
    settings = Settings.parse(options)
    settings.require_fixed_nodes()
    settings.require_writer(streaming=True)
    return StreamWriter(NsqOutput(settings, Columns.of(schema, settings.topic)))
