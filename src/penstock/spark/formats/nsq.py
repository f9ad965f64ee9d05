"""The facade Spark meets: ``spark.readStream.format("nsq")`` and ``spark.read.format("nsq")``.

Spark pickles an instance into several kinds of processes, so this module stays light and the
readers are imported only where they work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.spark.channel.channel_settings import ChannelSettings
from penstock.spark.errors import OptionError
from penstock.spark.schema import CHANNEL_SCHEMA, SCHEMA
from penstock.spark.source_settings import SourceSettings, is_channel

if TYPE_CHECKING:
    from collections.abc import Sequence


class NsqDataSource(DataSource):
    """A source of topics of Penstock's nsqd by log offset, and a sink for any nsqd.

    The option ``columns``, or a schema that the user gives, may name any of the columns in any
    order: what is left out is not built, not sent to the JVM and not paid for.
    """

    @classmethod
    def name(cls) -> str:
        return "nsq"

    def schema(self) -> StructType:
        kind = ChannelSettings if is_channel(self.options) else SourceSettings
        return StructType([SCHEMA[name] for name in kind.columns_in(self.options)])

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.read.batch import BatchReader

        settings = SourceSettings.parse(self.options, "batch")
        return BatchReader(settings, columns_of(schema, SCHEMA, settings))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if is_channel(self.options):
            from penstock.spark.channel.stream import ChannelStreamReader

            channel = ChannelSettings.parse(self.options)
            asked = columns_of(schema, CHANNEL_SCHEMA, channel)
            return ChannelStreamReader(channel, asked)
        from penstock.spark.read.stream import StreamReader

        settings = SourceSettings.parse(self.options, "stream")
        return StreamReader(settings, columns_of(schema, SCHEMA, settings))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink.writer import BatchWriter, output

        return BatchWriter(output(self.options, schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.sink.writer import StreamWriter, output

        return StreamWriter(output(self.options, schema))


def columns_of(
    schema: StructType, all_columns: StructType, settings: SourceSettings | ChannelSettings
) -> Sequence[str]:
    """The asked columns. Raises OptionError when one is unknown or has another type, and when the
    options ask for others.
    """
    known = {field.name: field.dataType for field in all_columns}
    for field in schema:
        if known.get(field.name) != field.dataType:
            raise OptionError(
                f"format {settings.format} has no column {field.name} "
                f"{field.dataType.simpleString()}; it has {all_columns.simpleString()}"
            )
    asked = tuple(schema.fieldNames())
    if settings.columns and settings.columns != asked:
        raise OptionError(
            f"the schema asks for {', '.join(asked)}, the option columns for "
            f"{', '.join(settings.columns)}: give one of the two"
        )
    return asked
