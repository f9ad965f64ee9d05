"""Bounds of a topic: the most that it may hold, and the fate of what is too much.

What counts is what somebody still needs: what waits in the topic itself, and with it what the
fullest of its channels has not finished: waiting, in flight and deferred. Bytes are those of the
log, headers included, and shared out evenly within a block of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.core.errors import StorageError


class Overflow(Enum):
    """The fate of a publish to a full topic."""

    REFUSE = "refuse"
    DROP_OLDEST = "drop-oldest"


class TopicFullError(StorageError):
    """The topic holds as much as it may; publishing works again when something is finished."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Messages and bytes of a topic; 0: no bound."""

    max_depth: int = 0
    max_bytes: int = 0
    overflow: Overflow = Overflow.REFUSE

    def __bool__(self) -> bool:
        return bool(self.max_depth or self.max_bytes)

    def refusal(self) -> TopicFullError:
        """The error of a publish that does not fit."""
        named = {"max-depth": self.max_depth, "max-bytes": self.max_bytes}
        stated = ", ".join(f"{name} {value}" for name, value in named.items() if value)
        return TopicFullError(f"topic is full ({stated})")
