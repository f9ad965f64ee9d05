"""Durations as Go writes them (``1m30s``, ``250ms``, ``1.5h``), held as whole nanoseconds.

The flags, configuration files and answers of NSQ use this notation; the texts of errors are Go's
too.
"""

from __future__ import annotations

import re

NANOSECOND = 1
MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

DURATION_FORM = "a duration such as 500ms, 90s or 1h30m (units: ns, us, ms, s, m, h)"

_MAX = (1 << 63) - 1
_UNITS = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "\u00b5s": MICROSECOND,  # micro sign
    "\u03bcs": MICROSECOND,  # Greek mu
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")


def parse_duration(text: str) -> int:
    """Nanoseconds of a Go duration; ValueError with the text of Go's ``time.ParseDuration``."""
    invalid = ValueError(f"time: invalid duration {_quote(text)}")
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise invalid
    total = 0
    while rest:
        part = _PART.match(rest)
        assert part is not None  # the pattern matches the empty string too
        whole, fraction, unit = part.groups()
        if not whole and not fraction:
            raise invalid
        if not unit:
            raise ValueError(f"time: missing unit in duration {_quote(text)}")
        size = _UNITS.get(unit)
        if size is None:
            raise ValueError(f"time: unknown unit {_quote(unit)} in duration {_quote(text)}")
        total += int(whole or "0") * size + int(fraction or "0") * size // 10 ** len(fraction or "")
        rest = rest[part.end() :]
    # -(1 << 63) is a duration, its opposite is not.
    if total > _MAX + negative:
        raise invalid
    return -total if negative else total


def format_duration(ns: int) -> str:
    """The shortest Go form of ``ns`` nanoseconds: ``1m0s``, ``1.5s``, ``85.968µs``, ``0s``."""
    sign, size = ("-", -ns) if ns < 0 else ("", ns)
    if size == 0:
        return "0s"
    if size < MICROSECOND:
        return f"{sign}{size}ns"
    if size < MILLISECOND:
        return f"{sign}{_decimal(size, MICROSECOND)}\u00b5s"
    if size < SECOND:
        return f"{sign}{_decimal(size, MILLISECOND)}ms"
    minutes, rest = divmod(size, MINUTE)
    text = f"{_decimal(rest, SECOND)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")


def _quote(text: str) -> str:
    r"""Quote as Go's time package does: every byte outside ASCII is shown as ``\xNN``."""
    shown = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        if char in '"\\':
            shown.append("\\" + char)
        elif 0x20 <= byte < 0x80:
            shown.append(char)
        else:
            shown.append(f"\\x{byte:02x}")
    return '"' + "".join(shown) + '"'
