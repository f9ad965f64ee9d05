"""Exceptions that decoders raise for bytes that are not what they should be."""

from __future__ import annotations

import json
from typing import Final

try:
    from msgspec import DecodeError
except ImportError:  # an executor of Spark, where the standard library's decoder takes its place
    DecodeError = json.JSONDecodeError  # type: ignore[assignment,misc]

MALFORMED: Final = (DecodeError, UnicodeDecodeError, RecursionError)
"""Errors for ``except``: msgspec has no root for all. The last is for what is nested too deeply,
also where it would have been skipped.
"""
