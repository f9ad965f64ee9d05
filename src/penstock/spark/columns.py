"""The columns of the source, in their order."""

from __future__ import annotations

from typing import Final

COLUMNS: Final = ("topic", "body", "id", "timestamp", "attempts", "node", "queue", "offset")
"""Those of every message, which are read unless others are asked for."""
