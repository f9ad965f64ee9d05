"""The columns of format ``nsq``, for its source and its sink."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.spark.channel.channel_settings import COLUMNS as CHANNEL_COLUMNS

_TYPES = {
    "topic": StringType(),
    "body": BinaryType(),
    "id": StringType(),
    "timestamp": TimestampType(),
    "attempts": IntegerType(),
    "node": StringType(),
    "queue": IntegerType(),
    "offset": LongType(),
    "origin_topic": StringType(),
    "origin_channel": StringType(),
    "origin_id": StringType(),
    "origin_timestamp": TimestampType(),
    "origin_attempts": IntegerType(),
    "reason": StringType(),
}
SCHEMA = StructType([StructField(name, kind) for name, kind in _TYPES.items()])
"""All columns."""
CHANNEL_SCHEMA = StructType([SCHEMA[name] for name in CHANNEL_COLUMNS])
"""The columns of ``mode=channel``."""
