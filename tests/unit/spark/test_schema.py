from __future__ import annotations

from penstock.spark.schema import SCHEMA
from penstock.spark.settings import COLUMNS, ORIGIN_COLUMNS


def test_each_column_that_may_be_asked_for_has_a_type() -> None:
    assert tuple(SCHEMA.names) == COLUMNS + ORIGIN_COLUMNS
