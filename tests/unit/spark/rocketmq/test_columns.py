from __future__ import annotations

from penstock.spark.rocketmq.columns import COLUMNS
from penstock.spark.rocketmq.decode import TYPES
from penstock.spark.rocketmq.schema import SCHEMA


def test_the_columns_are_those_of_the_schema_and_of_the_decoder() -> None:
    assert SCHEMA.fieldNames() == list(COLUMNS) == list(TYPES)
