"""Messages as lines: their text, hexadecimal, or JSON with where and when."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Final, Literal

from penstock.nsq.stored import Stored, as_object

Form = Literal["text", "hex", "json"]


def printable(body: bytes) -> str:
    """A body that a terminal can show without being told anything by it."""
    text = body.decode(errors="backslashreplace")
    return "".join(
        char
        if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf")
        else char.encode("unicode_escape").decode()
        for char in text
    )


def _text(message: Stored) -> bytes:
    return message.body + b"\n"


def _safe_text(message: Stored) -> bytes:
    return printable(message.body).encode() + b"\n"


def _hex(message: Stored) -> bytes:
    return message.body.hex().encode() + b"\n"


def _json(message: Stored) -> bytes:
    return json.dumps(as_object(message), ensure_ascii=False).encode() + b"\n"


_FORMS: Final[dict[str, Callable[[Stored], bytes]]] = {"text": _text, "hex": _hex, "json": _json}


def printer(form: Form, *, terminal: bool) -> Callable[[Stored], bytes]:
    """The function that makes a message a line; text: the body as it is, unless for a terminal."""
    return _safe_text if form == "text" and terminal else _FORMS[form]
