"""Fields of HTTP heads that somebody else than the program gives (RFC 9110, 5.6.2)."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def is_name(text: str) -> bool:
    """True for a text that can be a field's name."""
    return _TOKEN.fullmatch(text) is not None
