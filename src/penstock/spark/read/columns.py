"""The columns of the source, in their order."""

from __future__ import annotations

from typing import Final

COLUMNS: Final = ("topic", "body", "id", "timestamp", "attempts", "node", "queue", "offset")
"""The columns of every message, which are read unless others are asked for."""

ORIGIN_COLUMNS: Final = (
    "origin_topic", "origin_channel", "origin_id", "origin_timestamp", "origin_attempts", "reason",
)  # fmt: skip
"""The columns of dead letters, null in other messages."""
