"""The columns that queries need, as Spark's optimiser sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.spec import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = """
[source]
topic = "t"
nsqd_http_address = "127.0.0.1:4151"
[parse]
json = "ts timestamp, n int"
{parse}
[sql]
query = "{query}"
[sink]
format = "console"
"""
ALL = ["ts", "n", "topic", "body", "id", "timestamp", "attempts", "node", "queue", "offset"]


@pytest.mark.parametrize(
    ("query", "parse", "wanted"),
    [
        ("select * from input", "", ALL[2:]),
        ("select n, count(*) as c from input group by n", "", ["body"]),
        ("select body from input where n > 1 and topic = 't'", "", ["topic", "body"]),
        ("select n from input", 'watermark = "timestamp 1 minute"', ["body", "timestamp"]),
        ("select n from input", 'watermark = "ts 1 minute"\nunique = "id"', ["body", "id"]),
    ],
)
def test_what_is_not_used_is_not_read(
    spark: SparkSession, query: str, parse: str, wanted: list[str]
) -> None:
    pipeline = Pipeline(read(Document("p.toml", FILE.format(query=query, parse=parse)), {}))
    names = [part.split()[0] for part in pipeline._needed(spark).split(", ")]
    assert names == wanted


def test_a_count_reads_one_column(spark: SparkSession) -> None:
    text = FILE.replace('json = "ts timestamp, n int"\n', "").format(
        query="select count(*) as n from input", parse=""
    )
    assert Pipeline(read(Document("p.toml", text), {}))._needed(spark) == "offset bigint"
