from __future__ import annotations

from penstock.spark.rocketmq.schema import SCHEMA
from penstock.spark.rocketmq.settings import COLUMNS


def test_each_column_that_may_be_asked_for_has_a_type() -> None:
    assert tuple(SCHEMA.names) == COLUMNS
