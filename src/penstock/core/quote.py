"""Go's ``%q``: how NSQ shows bytes a client sent inside its error texts.

Python's repr differs in quotes, in escapes and in what counts as printable, and clients compare
these texts.
"""

from __future__ import annotations

_SHORT = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quote(raw: bytes | str) -> str:
    r"""The double-quoted, escaped form of ``raw``; bytes that are not UTF-8 show as ``\xNN``."""
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "surrogateescape")
    return '"' + "".join(map(_quote_char, text)) + '"'


def _quote_char(char: str) -> str:
    short = _SHORT.get(char)
    if short is not None:
        return short
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
