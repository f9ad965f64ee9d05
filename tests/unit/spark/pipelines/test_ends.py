"""Sources and sinks of ours, checked without Spark; Spark's own are in tests/spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from penstock.spark.errors import OptionError
from penstock.spark.pipelines.ends import check_sink, check_source
from penstock.spark.pipelines.spec import Sink, Source

NODE = {"topic": "t", "nsqd_http_address": "h:1"}
BROKER = {"topic": "t", "namesrvAddr": "h:1"}
CHANNEL = {
    "mode": "channel", "topic": "t", "channel": "c", "nsqd_tcp_address": "h:1",
    "stagingLocation": "/nowhere",
}  # fmt: skip
NOTHING: Any = None


@pytest.mark.parametrize(
    ("source", "column"),
    [
        (Source("nsq", NODE), "offset"),
        (Source("nsq", CHANNEL), "attempts"),
        (Source("rocketmq", BROKER), "queue_offset"),
    ],
)
def test_columns_of_a_source_are_its_own(source: Source, column: str) -> None:
    check_source(source, StructType().add("body", BinaryType()))
    for name, kind in (("bdy", BinaryType()), (column, StringType())):
        with pytest.raises(OptionError, match=rf"has no column {name} "):
            check_source(source, StructType().add(name, kind))


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (Sink("nsq", NODE), "n"),
        (Sink("rocketmq", BROKER), "n"),
        (Sink("http", {"url": "http://h/"}), "format http posts no column n"),
        (Sink("http", {}), "say where to post"),
    ],
)
def test_columns_of_a_sink_are_those_it_writes(sink: Sink, said: str) -> None:
    body = StructType().add("body", StringType())
    if sink.options:
        check_sink(NOTHING, sink, body)
        body.add("n", LongType())
    with pytest.raises(OptionError, match=said):
        check_sink(NOTHING, sink, body)


def test_sources_of_spark_are_its_own_to_check() -> None:
    check_source(Source("parquet", {"path": "x"}), StructType().add("n", LongType()))
