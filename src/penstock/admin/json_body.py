"""The JSON bodies of nsqadmin's requests, and Go's words for what is wrong with them.

Only the first value of a body is read, ``null`` counts as ``{}``, keys match in any case (NSQ spec
5.2, "JSON body errors").
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NoReturn

_SPACE: Final = " \t\r\n"
_REASONS: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": (
        "looking for beginning of object key string"
    ),
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Invalid control character at": "in string literal",
    "Invalid control character": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}
_NAMES: Final[dict[type, str]] = {
    str: "string", bool: "bool", list: "array", int: "number", float: "number", tuple: "object",
}  # fmt: skip


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"invalid character {word[0]!r} looking for beginning of value")


# Objects are told apart from arrays by being tuples of pairs.
_decoder = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse)


def read_strings(body: bytes, names: Sequence[str]) -> list[str]:
    """The strings at ``names`` of the object in ``body``, in that order; absent ones are empty.

    Raises ValueError with the text that Go's decoder has.
    """
    value = _first_value(body.decode("utf-8", "replace"))
    found = dict.fromkeys(names, "")
    if value is None:
        return list(found.values())
    if not isinstance(value, tuple):
        fields = "; ".join(f'{name.title()} string "json:\\"{name}\\""' for name in names)
        kind = _NAMES[type(value)]
        raise ValueError(
            f"json: cannot unmarshal {kind} into Go value of type struct {{ {fields} }}"
        )
    for key, item in value:
        name = key if key in found else key.lower()
        if name not in found or item is None:
            continue
        if not isinstance(item, str):
            kind = _NAMES[type(item)]
            raise ValueError(
                f"json: cannot unmarshal {kind} into Go struct field .{name} of type string"
            )
        found[name] = item
    return [_whole(text) for text in found.values()]


def _first_value(text: str) -> Any:
    start = len(text) - len(text.lstrip(_SPACE))
    if start == len(text):
        raise ValueError("EOF")
    try:
        return _decoder.raw_decode(text, start)[0]
    except json.JSONDecodeError as error:
        raise ValueError(_reason(error, text)) from None
    except RecursionError:
        raise ValueError("exceeded max depth") from None


def _reason(error: json.JSONDecodeError, text: str) -> str:
    at = error.pos
    if error.msg.startswith("Expecting"):
        at += len(text[at:]) - len(text[at:].lstrip(_SPACE))
    reason = _REASONS.get(error.msg)
    if reason is None or at >= len(text):  # an unterminated string, for one
        return "unexpected EOF"
    shown = {"'": "'\\''", '"': "'\"'"}.get(text[at]) or _quoted(text[at])
    return f"invalid character {shown} {reason}"


def _quoted(char: str) -> str:
    escapes = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
    if char in escapes:
        return f"'{escapes[char]}'"
    return f"'{char}'" if char.isprintable() else f"'\\x{ord(char):02x}'"


def _whole(text: str) -> str:
    """A text without halves of surrogate pairs, which JSON can say and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text
