from __future__ import annotations

import pytest

from penstock.admin.rocketmq.answers import required, said, time_of
from penstock.net.http.server.api import ApiError, Query


def test_times_are_milliseconds_or_the_end() -> None:
    assert [time_of(text) for text in ("-1", "0", "1700000000000")] == [-1, 0, 1700000000000]
    for text in ("", "-2", "1.5", "\u0661", "9" * 20):
        with pytest.raises(ApiError, match="INVALID_TIME"):
            time_of(text)


def test_an_argument_that_is_missing_is_named() -> None:
    assert required("t", "topic") == "t"
    with pytest.raises(ApiError, match="MISSING_ARG_TOPIC"):
        required("", "topic")


def test_an_argument_is_proper_unicode() -> None:
    query = Query.parse(b"topic=%ffa%C3%9F")
    assert said(query, "topic") == "\N{REPLACEMENT CHARACTER}a\u00df"
    assert said(query, "key") == ""
