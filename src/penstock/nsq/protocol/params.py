"""The parameters of a command line: names and numbers as nsqd reads them (NSQ spec 1.1)."""

from __future__ import annotations

import sys

from penstock.core.names import is_valid_name

_REGISTER = (1 << 64) - 1
_MAX_REMEMBERED = 16384
_remembered: dict[bytes, str] = {}


def parse_name(raw: bytes) -> str | None:
    """A topic's or channel's name if it is valid.

    Valid names are remembered, so that each is checked once and compares by identity.
    """
    name = _remembered.get(raw)
    if name is None and is_valid_name(raw):
        if len(_remembered) >= _MAX_REMEMBERED:
            # Clients choose the names, so they must not add up; to check each once more is cheap.
            _remembered.clear()
        name = _remembered[raw] = sys.intern(raw.decode())
    return name


def parse_number(raw: bytes) -> int | None:
    """ASCII digits only, modulo 2^64; nothing at all is 0. None for anything else."""
    if not raw:
        return 0
    if not raw.isdigit():
        return None
    # 10^64 is a multiple of 2^64, so digits further left make no difference.
    return int(raw[-64:]) & _REGISTER


def signed(number: int) -> int:
    """The number in a signed 64-bit register: wrapped, and negative from 2^63 on."""
    number &= _REGISTER
    return number - (1 << 64) if number >> 63 else number


def shown(raw: bytes) -> str:
    """A parameter inside an error text; bytes that are not UTF-8 become surrogate escapes."""
    return raw.decode("utf-8", "surrogateescape")
