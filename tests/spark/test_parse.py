"""Letters about rows that do not parse, on a real Spark."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from penstock.spark.errors import SourceError
from penstock.spark.pipelines import parse
from penstock.spark.pipelines.spec import Parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JSON = "n int not null, topic string"


def test_letters_name_reason_place_and_body(spark: SparkSession) -> None:
    bodies = [b'{"n": 1}', b'{"n": "one"}', b"\xff\xfe", b'{"topic": "x"}']
    rows = [("t", offset, bytearray(body)) for offset, body in enumerate(bodies)]
    frame = spark.createDataFrame(rows, "topic string, offset long, body binary")
    letters = parse.letters(parse.bad_rows(frame, JSON)).collect()
    assert [json.loads(bytes(letter.body)) for letter in letters] == [
        {
            "reason": "field n is not of type int: one",
            "topic": "t",
            "offset": 1,
            "body": '{"n": "one"}',
        },
        {"reason": "the body is not JSON", "topic": "t", "offset": 2, "body_base64": "//4="},
        {"reason": "field n is missing", "topic": "t", "offset": 3, "body": '{"topic": "x"}'},
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"n": 1', "the body is not JSON"),
        ('{"n": 1} {"n": 2}', None),  # as Spark reads no further
        ("null", "the body is not a JSON object"),
        ('[{"n": 1}]', "the body is not a JSON object"),
        ('{"n": 1.5}', "field n is not of type int: 1.5"),
        ('{"n": 2147483648}', "field n is not of type int: 2147483648"),
        ('{"n": null}', "field n is missing"),
        ('{"n": 1, "of": 2}', "field of is not of type struct<m:int>: 2"),
        ('{"n": 1, "of": {"m": "x"}}', "the body does not parse"),
        (f'{{"n": "{"9" * 101}"}}', f"field n is not of type int: {'9' * 100}"),
        ('{"n": 1, "of": {"m": 1, "more": 0}, "more": []}', None),
    ],
)
def test_the_reason_of_a_row_that_does_not_parse(
    spark: SparkSession, body: str, reason: str | None
) -> None:
    frame = spark.createDataFrame([(bytearray(body.encode()),)], "body binary")
    found = parse.bad_rows(frame, "n int not null, of struct<m: int>").collect()
    assert [row.reason for row in found] == ([] if reason is None else [reason])


def test_fields_hide_columns_of_the_same_name(spark: SparkSession) -> None:
    body = b'{"n": 1, "topic": "of the body"}'
    frame = spark.createDataFrame([("t", body)], "topic string, value binary")
    (row,) = parse.columns(frame, Parse(JSON)).collect()
    assert row.asDict() == {"n": 1, "topic": "of the body", "value": bytearray(body)}


def test_messages_are_forwarded_as_they_are_whatever_fields_they_have(spark: SparkSession) -> None:
    body = b'{"n": 1, "topic": "of the body"}'
    rows = [("t", bytearray(each), datetime(2026, 1, 1)) for each in (body, b"no JSON", body)]
    frame = spark.createDataFrame(rows, "topic string, body binary, timestamp timestamp")
    once = Parse(JSON, ("timestamp", "1 minute"), ("n",))
    found = parse.messages(frame, once)
    assert found.columns == frame.columns
    assert [(row.topic, bytes(row.body)) for row in found.collect()] == [("t", body)]
    assert parse.messages(frame, Parse()).collect() == frame.collect()


def test_a_source_without_bodies(spark: SparkSession) -> None:
    with pytest.raises(SourceError) as refused:
        parse.columns(spark.range(1), Parse(JSON))
    assert str(refused.value) == "[parse] json needs a column body or value; the source has id"
