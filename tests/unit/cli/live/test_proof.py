"""The verdict must notice every kind of damage."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.live.proof import verdict


def carrier(events: int, distinct: int, first: int, last: int) -> dict[str, Any]:
    return {"events": events, "distinct": distinct, "first": first, "last": last, "delay": 1.0}


@pytest.mark.parametrize(
    ("carriers", "kept", "said"),
    [
        ([carrier(60, 60, 0, 98), carrier(40, 40, 1, 99)], True,
         "100 rows in Parquet = 100 events published, none lost, none twice"),
        ([carrier(60, 60, 0, 98), carrier(39, 39, 1, 99)], False,
         "99 rows in Parquet ≠ 100 events published, 1 lost, none twice"),
        ([carrier(61, 60, 0, 98), carrier(40, 40, 1, 99)], False,
         "101 rows in Parquet ≠ 100 events published, none lost, 1 twice"),
        ([carrier(61, 60, 0, 98), carrier(39, 39, 1, 99)], False,
         "100 rows in Parquet = 100 events published, 1 lost, 1 twice"),
        ([carrier(100, 100, 1, 100)], False,
         "100 rows in Parquet = 100 events published, none lost, none twice"),
        ([], False, "0 rows in Parquet ≠ 100 events published, 100 lost, none twice"),
    ],
)  # fmt: skip
def test_verdict(carriers: list[dict[str, Any]], kept: bool, said: str) -> None:
    assert verdict(carriers, 100) == (kept, said)
