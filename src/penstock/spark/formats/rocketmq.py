"""The facade Spark meets: ``format("rocketmq")``, for batches and streams.

As light as that of ``nsq``: readers are imported only where they work.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.spark.formats.nsq import columns_of
from penstock.spark.rocketmq.rocketmq_settings import RocketmqSettings
from penstock.spark.rocketmq.schema import SCHEMA


class RocketmqDataSource(DataSource):
    """A source of RocketMQ topics' queues by queue offset, from Penstock's and Java's brokers.

    The option ``columns``, or a schema that the user gives, may name any of the columns in any
    order: what is left out is not built.
    """

    @classmethod
    def name(cls) -> str:
        return RocketmqSettings.format

    def schema(self) -> StructType:
        return StructType([SCHEMA[name] for name in RocketmqSettings.columns_in(self.options)])

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.read.batch import BatchReader
        from penstock.spark.rocketmq.reader import ROCKETMQ

        settings = RocketmqSettings.parse(self.options, "batch")
        return BatchReader(settings, columns_of(schema, SCHEMA, settings), ROCKETMQ)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock.spark.read.stream import StreamReader
        from penstock.spark.rocketmq.reader import ROCKETMQ

        settings = RocketmqSettings.parse(self.options, "stream")
        return StreamReader(settings, columns_of(schema, SCHEMA, settings), ROCKETMQ)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink.rocketmq.writer import output
        from penstock.spark.sink.writer import BatchWriter

        return BatchWriter(output(self.options, schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.sink.rocketmq.writer import output
        from penstock.spark.sink.writer import StreamWriter

        return StreamWriter(output(self.options, schema))
