"""The facade: name, schema, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructType

from penstock.spark.errors import OptionError
from penstock.spark.formats.nsq import NsqDataSource
from penstock.spark.read.decode import TYPES, arrow_schema
from penstock.spark.schema import SCHEMA
from penstock.spark.settings import COLUMNS
from pyspark_nsq import DefaultSource

OPTIONS = {"topic": "t", "nsqd_http_address": "h:1"}


def test_spark_finds_it_by_name() -> None:
    assert DefaultSource is NsqDataSource
    assert NsqDataSource.name() == "nsq"


def test_what_is_decoded_is_what_spark_expects() -> None:
    # Spark compares the first record batch's schema with exactly this.
    assert arrow_schema(tuple(TYPES)) == to_arrow_schema(SCHEMA, timezone="UTC")


def test_some_columns_in_another_order() -> None:
    asked = StructType().add("offset", LongType()).add("topic", StringType())
    source: Any = NsqDataSource(OPTIONS)
    assert source.reader(asked).columns == ("offset", "topic")
    assert source.streamReader(asked).columns == ("offset", "topic")


def test_columns_that_the_option_names() -> None:
    source: Any = NsqDataSource({**OPTIONS, "columns": "offset, body"})
    assert source.schema() == StructType([SCHEMA["offset"], SCHEMA["body"]])
    assert source.reader(source.schema()).columns == ("offset", "body")
    assert tuple(NsqDataSource(OPTIONS).schema().fieldNames()) == COLUMNS
    with pytest.raises(OptionError) as refused:
        source.streamReader(StructType([SCHEMA["body"]]))
    said = "the schema asks for body, the option columns for offset, body: give one of the two"
    assert str(refused.value) == said


def test_columns_of_dead_letters() -> None:
    assert NsqDataSource({**OPTIONS, "includeOrigin": "true"}).schema() == SCHEMA
    named = NsqDataSource({**OPTIONS, "columns": "body,reason"}).schema()
    assert named.fieldNames() == ["body", "reason"]
    with pytest.raises(OptionError, match="columns names all columns to read: leave includeOri"):
        NsqDataSource({**OPTIONS, "columns": "body", "includeOrigin": "true"}).schema()


@pytest.mark.parametrize(("name", "kind"), [("offset", StringType()), ("value", LongType())])
def test_columns_it_does_not_have(name: str, kind: StringType | LongType) -> None:
    with pytest.raises(OptionError, match=f"format nsq has no column {name}"):
        NsqDataSource(OPTIONS).reader(StructType().add(name, kind))


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    given = {**OPTIONS, option: "latest" if option == "endingOffsets" else "-1h"}
    with pytest.raises(OptionError, match=f"{option} is for batch reads only"):
        NsqDataSource(given).streamReader(SCHEMA)
    NsqDataSource(given).reader(SCHEMA)
