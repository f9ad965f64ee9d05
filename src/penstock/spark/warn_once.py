"""Warnings of the source, each written to the log once: what is true for hours is told once."""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger("penstock.spark")
_KEPT_MAX: Final = 1000


class WarnOnce:
    """A memory of what was told; of a thousand different sentences no more are told."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def warn(self, sentence: str, level: int = logging.WARNING) -> None:
        """Log this, the first time."""
        # Sentences with numbers in them may be without end.
        if sentence not in self._told and len(self._told) < _KEPT_MAX:
            self._told.add(sentence)
            logger.log(level, sentence)
