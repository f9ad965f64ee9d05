"""Moments as text."""

from __future__ import annotations

from penstock.core.moments import rfc3339


def test_utc_with_microseconds() -> None:
    assert rfc3339(1_795_294_921_053_775_026) == "2026-11-21T21:02:01.053775Z"
    assert rfc3339(0) == "1970-01-01T00:00:00.000000Z"
