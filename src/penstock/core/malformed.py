"""What decoders raise for bytes that are not what they should be."""

from __future__ import annotations

from typing import Final

import msgspec

MALFORMED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""For ``except``: msgspec has no root for all of them. The last is for what is nested too deeply,
also where it would have been skipped.
"""
