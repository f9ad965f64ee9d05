"""Names of RocketMQ's topics, as the sink accepts them."""

from __future__ import annotations

import re
from typing import Final

TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")


def invalid_topic(name: str) -> str:
    """The sentence for a name that no topic can have."""
    return (
        f"topic name {name[:200]!r} is invalid: a name is 1 to 127 letters, digits, underscores "
        "and dashes"
    )
