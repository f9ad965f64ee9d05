"""The decoders under fuzzing: for each a function that takes any bytes, and some seeds.

A target raises when its decoder breaks a promise: an exception that is not documented, more bytes
held than the limits allow, or another meaning when a stream is cut elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Target(NamedTuple):
    """One decoder: what runs it on some bytes, and bytes that lead far into it."""

    run: Callable[[bytes], None]
    seeds: list[bytes]
    words: list[bytes]  # what the format is made of, for the mutations
