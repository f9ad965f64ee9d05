"""When a consumed segment may go."""

from __future__ import annotations

import pytest

from penstock.storage.retention import Retention


@pytest.mark.parametrize(
    ("retention", "age_ns", "nbytes_without", "expired"),
    [
        (Retention(), 0, 0, True),
        (Retention(time_ns=10), 10, 10**9, False),
        (Retention(time_ns=10), 11, 0, True),
        (Retention(time_ns=10), -5, 10**9, False),  # the wall clock was set back
        (Retention(nbytes=100), 10**18, 99, False),
        (Retention(nbytes=100), 0, 100, True),
        (Retention(time_ns=10, nbytes=100), 10, 99, False),
        (Retention(time_ns=10, nbytes=100), 11, 99, True),
        (Retention(time_ns=10, nbytes=100), 10, 100, True),
    ],
)
def test_expiry(retention: Retention, age_ns: int, nbytes_without: int, expired: bool) -> None:
    assert retention.expired(age_ns, nbytes_without) is expired
