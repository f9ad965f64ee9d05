"""Moments as people and programs read them."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.core.units import MICROSECOND

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@functools.lru_cache(maxsize=16)  # the messages of a batch have the same
def rfc3339(ns: int) -> str:
    """A time in wall-clock ns as UTC with microseconds."""
    moment = EPOCH + timedelta(microseconds=ns // MICROSECOND)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
