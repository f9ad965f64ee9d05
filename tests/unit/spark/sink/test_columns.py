"""Columns that the sink takes, and those it refuses."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructField, StructType, TimestampType

from penstock.spark.errors import OptionError
from penstock.spark.schema import SCHEMA
from penstock.spark.sink.columns import Columns
from tests.unit.spark.sink.making import schema


def of(ddl: str, topic: str | None = None) -> Columns:
    return Columns.of(schema(ddl), topic)


def test_what_is_written() -> None:
    assert of("body binary", "t") == Columns("body", None, None)
    assert of("value string, defer_ms smallint, topic string") == Columns(
        "value", "topic", "defer_ms"
    )
    # The option goes first, as with Kafka's sink.
    assert of("topic string, body string", "t").topic is None


def test_messages_are_forwarded_as_the_source_gives_them() -> None:
    assert Columns.of(SCHEMA, None) == Columns("body", "topic", None)


def test_a_watermark_and_what_may_be_null_change_no_column() -> None:
    marked = StructField("timestamp", TimestampType(), False, {"spark.watermarkDelayMs": 1000})
    found = Columns.of(StructType([SCHEMA["body"], marked]), "t")
    assert found == Columns("body", None, None)


@pytest.mark.parametrize(
    ("ddl", "topic", "packed"),
    [
        ("text string, n bigint", "t", ["text", "n"]),
        # What chooses the topic or delays is no part of the body; a topic that does not choose is.
        ("topic string, n bigint, defer_ms bigint", None, ["n"]),
        ("topic string, n bigint", "t", ["topic", "n"]),
        # Nothing is left out of a frame that is not forwarded.
        ("id string, offset bigint", "t", ["id", "offset"]),
    ],
)
def test_without_a_body_the_others_are_packed_into_one(
    ddl: str, topic: str | None, packed: list[str]
) -> None:
    columns = of(ddl, topic)
    assert columns.body is None
    assert [field.name for field in columns.packed] == packed


@pytest.mark.parametrize(
    ("ddl", "topic", "said"),
    [
        ("body binary", None, 'say where to write: the option "topic" or a column topic'),
        ("body binary, text string", "t", "format nsq writes no column text; it writes body (or"),
        ("topic string", None, "format nsq writes a column body (or value), or packs others"),
        ("n bigint", None, 'say where to write: the option "topic" or a column topic'),
        ("Body binary", "t", "column Body: call it body, in small letters"),
        ("n bigint, n string", "t", "two columns n cannot be in one JSON body: rename one"),
        ("n bigint, topic bigint", None, "column topic must be string, not bigint"),
        (
            "v variant",
            "t",
            "column v cannot be packed into a JSON body, which has no form for vari",
        ),
        ("body binary, value binary", "t", "give one of them"),
        ("body bigint", "t", "column body must be binary or string, not bigint"),
        ("body binary, defer_ms double", "t", "column defer_ms must be a whole number, not double"),
        ("body binary, id bigint", "t", "format nsq writes no column id"),
    ],
)
def test_refused(ddl: str, topic: str | None, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        of(ddl, topic)
    assert said in str(refused.value)
