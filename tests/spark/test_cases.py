"""Tests in a pipeline's file, run on a real Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.spark.errors import SourceError
from penstock.spark.pipelines.cases import run_case
from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.spec import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METRICS = """
[source]
topic = "requests"
nsqd_http_address = "127.0.0.1:4151"
[parse]
json = "ts timestamp not null, endpoint string, status int, ms double"
watermark = "ts 2 minutes"
bad = "requests.bad"
[sql]
query = '''
  select window(ts, '1 minute') as w, endpoint, count(*) as n, avg(ms) as mean
  from input group by 1, 2'''
[sink]
format = "console"
"""
INPUT = """
[[tests]]
input = [
  {ts = 2026-01-01T10:00:05Z, endpoint = "/a", status = 200, ms = 1},
  {ts = "2026-01-01T10:00:55Z", endpoint = "/a", status = 200, ms = 2},
  {ts = 2026-01-01T10:01:00Z, endpoint = "/a", ms = 0.1},
  "no json", "[1]", '{"ts": "2026-01-01T10:00:00Z", "status": "fine"}', '{"status": 1}', "",
]
"""


def differences(spark: SparkSession, text: str) -> list[str]:
    pipeline = Pipeline(read(Document("p.toml", text), {}))
    (case,) = pipeline.spec.tests
    return [line for each in run_case(pipeline, spark, case) for line in each.lines()]


def test_windows_and_bad_rows_as_they_are_wanted(spark: SparkSession) -> None:
    wanted = """
output = [
  {endpoint = "/a", n = 1, mean = 0.1},
  {w = {start = 2026-01-01T10:00:00Z}, endpoint = "/a", n = 2, mean = 1.5},
]
"""
    # What a row does not name is not compared: of the first the window, of the second its end.
    assert differences(spark, METRICS + INPUT + wanted) == []
    assert differences(spark, METRICS + INPUT + wanted.replace("mean = 0.1", "mean = 0.2")) == [
        "output (- wanted, + came):",
        '  - {endpoint = "/a", n = 1, mean = 0.2}',
        '  + {w = {start = 2026-01-01T10:01:00Z, end = 2026-01-01T10:02:00Z}, endpoint = "/a", '
        "n = 1, mean = 0.1}",
    ]
    bad = """
bad = [
  {reason = "the body is not JSON", body = "no json"},
  {reason = "the body is not a JSON object", body = "[1]"},
  {reason = "field status is not of type int: fine"},
  {reason = "field ts is missing", body = '{"status": 1}'},
  {reason = "the body is not JSON", body = ""},
]
"""
    assert differences(spark, METRICS + INPUT + bad) == []


def test_copies_and_the_columns_of_the_message(spark: SparkSession) -> None:
    text = """
[source]
topic = "orders"
nsqd_http_address = "127.0.0.1:4151"
[parse]
watermark = "timestamp 10 minutes"
unique = "body"
[sql]
query = "select topic, offset, cast(body as string) as text from input"
[sink]
format = "console"
[[tests]]
input = ["one", {body = "two", topic = "others"}, "one"]
output = [{topic = "orders", text = "one"}, {topic = "others", text = "two"}]
"""
    assert differences(spark, text) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("endpoint, count", "endpoynt, count", "endpoint"),
        ('"ts 2 minutes"', '"tz 2 minutes"', "[parse] no column tz"),
        ("status int", "status intt", "[parse] json: Spark cannot read"),
        ("{n = 1}", "{m = 1}", "p.toml:16: output: no column m; there are w, endpoint, n, mean"),
    ],
)
def test_what_is_wrong_is_said(spark: SparkSession, old: str, new: str, said: str) -> None:
    text = METRICS + INPUT + "output = [{n = 1}]\n"
    with pytest.raises(Exception) as refused:
        differences(spark, text.replace(old, new))
    assert said in str(refused.value)


def test_an_input_column_that_is_not_there(spark: SparkSession) -> None:
    text = """
[source]
topic = "t"
nsqd_http_address = "127.0.0.1:4151"
[sink]
format = "console"
[[tests]]
input = [{bdy = "x"}]
output = []
"""
    with pytest.raises(SourceError) as refused:
        differences(spark, text)
    assert str(refused.value) == "p.toml:7: input: no column bdy; did you mean body?"
