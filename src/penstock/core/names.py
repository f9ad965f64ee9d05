"""Names of topics and channels: which are allowed, and which are ephemeral."""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 64
NAME_FORM = "1 to 64 letters, digits, dots, underscores and hyphens"
EPHEMERAL_SUFFIX = "#ephemeral"

_NAME = re.compile(r"[.a-zA-Z0-9_-]+(?:#ephemeral)?")
_NAME_BYTES = re.compile(rb"[.a-zA-Z0-9_-]+(?:#ephemeral)?")


def is_valid_name(name: str | bytes) -> bool:
    """True if ``name`` has 1 to 64 allowed bytes, ``#ephemeral`` included."""
    if len(name) > MAX_NAME_LENGTH:
        return False
    # fullmatch, because `$` would let a trailing newline pass.
    if isinstance(name, str):
        return _NAME.fullmatch(name) is not None
    return _NAME_BYTES.fullmatch(name) is not None


def is_ephemeral(name: str) -> bool:
    """True if the topic or channel lives in memory only and goes with its last user."""
    return name.endswith(EPHEMERAL_SUFFIX)
