"""Columns that the sink takes, and those it refuses."""

from __future__ import annotations

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.read.schema import SCHEMA
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


@pytest.mark.parametrize(
    ("ddl", "topic", "said"),
    [
        ("body binary", None, 'say where to write: the option "topic" or a column topic'),
        ("text string", "t", "format nsq writes no column text; it writes body (or value), topic"),
        ("topic string", None, "format nsq writes the column body (or value)"),
        ("body binary, value binary", "t", "give one of the two"),
        ("body bigint", "t", "column body must be binary or string, not bigint"),
        ("body binary, defer_ms double", "t", "column defer_ms must be a whole number, not double"),
        ("body binary, id bigint", "t", "format nsq writes no column id"),
    ],
)
def test_refused(ddl: str, topic: str | None, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        of(ddl, topic)
    assert said in str(refused.value)
