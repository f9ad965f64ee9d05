"""The columns that there are."""

from __future__ import annotations

from penstock.spark.read.columns import COLUMNS, ORIGIN_COLUMNS
from penstock.spark.read.decode import TYPES
from penstock.spark.read.schema import SCHEMA


def test_each_column_has_a_type_and_is_decoded() -> None:
    assert tuple(TYPES) == COLUMNS + ORIGIN_COLUMNS
    assert tuple(SCHEMA.fieldNames()) == COLUMNS + ORIGIN_COLUMNS
