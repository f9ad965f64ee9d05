"""The start of the next micro-batch and how far it goes: the limits that options set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from penstock.core.clock import SYSTEM_CLOCK
from penstock.spark import planning
from penstock.spark.offsets import Bounds, Offsets, Place
from penstock.spark.source_settings import SourceSettings

_ALL: Final = ReadAllAvailable()


class Admission:
    """The limits of one query, and since when messages wait for company."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._waiting_since_ns: int | None = None

    @property
    def limit(self) -> ReadLimit:
        """One of the limits, for Spark to hand back: it has no name for several at once."""
        settings = self._settings
        if settings.records_max is not None:
            return ReadMaxRows(settings.records_max)
        if settings.bytes_max is not None:
            return ReadMaxBytes(settings.bytes_max)
        return _ALL if settings.records_min is None else ReadMinRows(settings.records_min)

    def hold_back(self, start: Offsets, end: Offsets) -> bool:
        """Hold back too few messages, until the first has waited for too long; True while it
        does.
        """
        wanted, count = self._settings.records_min, planning.count(start, end)
        if wanted is None or not 0 < count < wanted:
            self._waiting_since_ns = None
            return False
        now = SYSTEM_CLOCK.monotonic_ns()
        if self._waiting_since_ns is None:
            self._waiting_since_ns = now
        if now - self._waiting_since_ns < self._settings.trigger_delay_ns:
            return True
        self._waiting_since_ns = None
        return False

    def cut(
        self, limit: ReadLimit, start: Offsets, end: Offsets, bounds: Mapping[Place, Bounds]
    ) -> Offsets:
        """The most of ``end`` that one micro-batch may take; ``limit`` is what Spark hands back."""
        if isinstance(limit, ReadAllAvailable):
            return end
        if isinstance(limit, ReadMaxRows):
            end = planning.admit(start, end, limit.max_rows)
        if self._settings.bytes_max is not None:
            end = planning.admit_bytes(start, end, self._settings.bytes_max, bounds)
        return end
