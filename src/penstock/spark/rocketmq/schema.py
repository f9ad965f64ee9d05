"""The columns of format ``rocketmq``, for its source and its sink."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("body", BinaryType()),
        StructField("keys", StringType()),
        StructField("tags", StringType()),
        StructField("properties", MapType(StringType(), StringType())),
        StructField("born_timestamp", TimestampType()),
        StructField("store_timestamp", TimestampType()),
        StructField("broker", StringType()),
        StructField("queue", IntegerType()),
        StructField("queue_offset", LongType()),
    ]
)
