"""The delays of a group's retries."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.broker.state.retry_policy import RetryPolicy
from penstock.rocketmq.protocol.errors import BodyError

GROWING = {"initial": 1000, "max": 20_000, "multiplier": 3}


def test_growing_delays() -> None:
    value = {"type": "EXPONENTIAL", "exponentialRetryPolicy": GROWING}
    policy = RetryPolicy.from_json(value)
    assert [policy.delay_ms(times) for times in (-1, 0, 1, 2, 3, 99)] == [
        1000, 1000, 3000, 9000, 20_000, 20_000,
    ]  # fmt: skip
    assert policy.as_json() == value
    usual = RetryPolicy.from_json({"type": "EXPONENTIAL", "exponentialRetryPolicy": {}})
    assert [usual.delay_ms(times) for times in (0, 1, 40)] == [5000, 10_000, 7_200_000]


def test_listed_delays_begin_with_the_third_as_in_java() -> None:
    value = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3, 4]}}
    policy = RetryPolicy.from_json(value)
    assert [policy.delay_ms(times) for times in (0, 1, 2, 9)] == [3, 4, 4, 4]
    assert policy.as_json() == value
    short = RetryPolicy.from_json({"customizedRetryPolicy": {"next": [7]}})
    assert short.delay_ms(0) == 7


def test_what_leaves_the_delays_to_the_broker() -> None:
    for value in ({}, {"type": "CUSTOMIZED"}, {"type": "EXPONENTIAL"},
                  {"type": "CUSTOMIZED", "exponentialRetryPolicy": GROWING}):  # fmt: skip
        assert RetryPolicy.from_json(value).delay_ms(3) is None
    assert RetryPolicy().as_json() == {"type": "CUSTOMIZED"}


@pytest.mark.parametrize(
    "value",
    [None, [], {"type": "ODD"}, {"type": 1}, {"exponentialRetryPolicy": {"initial": -1}},
     {"exponentialRetryPolicy": {"max": True}}, {"exponentialRetryPolicy": {"multiplier": 1 << 63}},
     {"customizedRetryPolicy": {}}, {"customizedRetryPolicy": {"next": []}},
     {"customizedRetryPolicy": {"next": [1, "2"]}},
     {"customizedRetryPolicy": {"next": [1] * 1001}}],
)  # fmt: skip
def test_what_is_no_policy(value: Any) -> None:
    with pytest.raises(BodyError):
        RetryPolicy.from_json(value)
