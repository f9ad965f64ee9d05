"""Patterns of addresses in access rules: ``192.168.0.*``, ``10.1.1-9.*``, ``10.0.0.{1,2}``.

Parts stand for themselves, for a range ``a-b`` or, as ``*``, for anything; the last group may list
alternatives in braces, and several patterns are separated by commas. IPv6 is written likewise, its
parts in hexadecimal. Nothing matches no address, ``*`` alone every one.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from reprlib import repr as shortened
from typing import Final

from penstock.core.errors import ConfigError

_Parts = tuple[int, ...]
_Ranges = tuple[tuple[int, int], ...]

_EVERY: Final = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_PARTS: Final = {".": (4, 10, 255), ":": (8, 16, 0xFFFF)}
"""The number of parts in an address, their base, and the largest value of a part."""


class AddressPattern:
    """An address pattern of an account or of the global list of trusted addresses."""

    __slots__ = ("_alternatives", "_is_every")

    def __init__(self, text: str) -> None:
        """Parse a pattern. Raises ConfigError."""
        text = text.strip()
        self._is_every = text in _EVERY
        self._alternatives: list[_Ranges] = []
        if not self._is_every:
            self._alternatives = [_ranges(each) for each in _expanded(text)]

    def matches(self, address: str) -> bool:
        """True if it covers an IP address. Text that is not an IP address matches only ``*``."""
        if self._is_every:
            return True
        if not self._alternatives:
            return False
        parts = _parts(address)
        return any(
            len(parts) == len(ranges)
            and all(low <= part <= high for part, (low, high) in zip(parts, ranges, strict=True))
            for ranges in self._alternatives
        )


def _expanded(text: str) -> list[str]:
    """The patterns that a list, in braces or not, stands for."""
    if text.endswith("}"):
        head, brace, last = text[:-1].partition("{")
        if not brace or not head.endswith((".", ":")):
            raise ConfigError(
                f"{shortened(text)} is not an address: braces hold the choices of the last part"
            )
        return [head + each.strip() for each in last.split(",")]
    return [each.strip() for each in text.split(",") if each.strip()]


def _ranges(text: str) -> _Ranges:
    separator = ":" if ":" in text else "."
    count, base, most = _PARTS[separator]
    words = text.split(separator)
    if separator == ":" and "::" in text:
        left, _, right = text.partition("::")
        before, after = left.split(":") if left else [], right.split(":") if right else []
        words = [*before, *["0"] * (count - len(before) - len(after)), *after]
    try:
        ranges = tuple(_range(word, base, most) for word in words)
    except ValueError:
        ranges = ()
    if len(ranges) != count:
        raise ConfigError(
            f"{shortened(text)} is not an address, nor a pattern of some, as in 192.168.0.*"
        )
    return ranges


def _range(word: str, base: int, most: int) -> tuple[int, int]:
    if word == "*":
        return 0, most
    first, _, last = word.partition("-")
    low, high = int(first, base), int(last or first, base)
    if not 0 <= low <= high <= most:
        raise ValueError(word)
    return low, high


@lru_cache(maxsize=1024)
def _parts(address: str) -> _Parts:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return ()
    packed = ip.packed
    if ip.version == 4:
        return tuple(packed)
    return tuple(int.from_bytes(packed[at : at + 2], "big") for at in range(0, 16, 2))
