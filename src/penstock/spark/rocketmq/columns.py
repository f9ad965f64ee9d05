"""The columns of ``format("rocketmq")``, in their order."""

from __future__ import annotations

from typing import Final

COLUMNS: Final = (
    "topic", "body", "keys", "tags", "properties", "born_timestamp", "store_timestamp", "broker",
    "queue", "queue_offset",
)  # fmt: skip
