"""``penstock pipeline sql`` into a pipe that nobody reads."""

from __future__ import annotations

import sys

from tools.harness.processes import unread

_SPARK = """
from contextlib import nullcontext
from unittest.mock import Mock
from penstock.cli.pipeline import sql

spark = Mock()
spark.sql.return_value.show = lambda *_, **__: print("row" * 100_000)
sql.local_spark = lambda: nullcontext(spark)
sql._topics = lambda nodes: []
sql.run_sql({}, "select 1", 5)
"""


def test_it_ends_quietly_when_nobody_reads_on() -> None:
    assert unread([sys.executable, "-c", _SPARK]) == (0, "")
