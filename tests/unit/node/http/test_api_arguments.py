"""Parameters of Penstock's own endpoints; the endpoints' tests have their refusals."""

from __future__ import annotations

import json

import pytest

from penstock.core.errors import OffsetOutOfRangeError
from penstock.net.http.server.api import ApiError, Query
from penstock.node.http.api_arguments import number, out_of_range


@pytest.mark.parametrize(("text", "value"), [("", 7), ("n=0", 0), ("n=10", 10)])
def test_numbers(text: str, value: int) -> None:
    assert number(Query.parse(text.encode()), "n", 7, 10) == value


@pytest.mark.parametrize("text", ["n=", "n=11", "n=-1", "n=1.0", "n=%2B1", "n=x", "n=" + "9" * 30])
def test_no_numbers(text: str) -> None:
    with pytest.raises(ApiError, match="INVALID_ARG_N"):
        number(Query.parse(text.encode()), "n", 7, 10)


def test_out_of_range_tells_the_range() -> None:
    response = out_of_range(OffsetOutOfRangeError("t", 0, 9, 3, 5))
    assert response.status == 416
    assert isinstance(response.body, bytes)
    assert json.loads(response.body) == {"message": "OFFSET_OUT_OF_RANGE", "start": 3, "end": 5}
