"""JSON as fastjson writes and reads it (RocketMQ spec 10): maps may have numbers and objects as
keys.

``{0:"ip:port"}`` and ``{{"brokerName":"b","queueId":0,"topic":"T"}:7}`` are what Java clients and
tools send and expect. In Python such keys are ints, and ``MessageQueue`` tuples or any other frozen
mapping written as a tuple of pairs.
"""

from __future__ import annotations

import re
from math import isfinite
from operator import itemgetter
from typing import Any, Final, NoReturn, TypeAlias

from penstock.core.malformed import MALFORMED
from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.compiled import decode_json, encode_json

# Our reader calls itself for each level: deeper input would end in a RecursionError.
DEPTH_MAX: Final = 100

ObjectKey: TypeAlias = tuple[tuple[str, Any], ...]
"""An object as a key of a map: its members, sorted by name."""

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.]*")
_PLAIN = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_WORDS = {"true": True, "false": False, "null": None}


# --- writing --------------------------------------------------------------------------------------


def dumps(value: Any, *, quoted_keys: bool = False) -> bytes:
    """``value`` in fastjson's way: compact, keys of maps with names sorted, None members left out.

    Integer keys stay bare unless ``quoted_keys``, which standard readers need; object keys are
    always objects.
    """
    parts: list[str] = []
    _write(value, parts, quoted_keys)
    return "".join(parts).encode("utf-8", "replace")


def _write(value: Any, parts: list[str], quoted_keys: bool) -> None:
    if isinstance(value, dict):
        _write_map(value, parts, quoted_keys)
    elif isinstance(value, list | tuple | set | frozenset):
        parts.append("[")
        for index, item in enumerate(value):
            if index:
                parts.append(",")
            _write(item, parts, quoted_keys)
        parts.append("]")
    elif isinstance(value, str):
        parts.append(encode_json(value.encode("utf-8", "replace").decode()).decode())
    elif isinstance(value, float):
        # RocketMQ spec 10: NaN never; doubles as 0.0, which is how repr writes them.
        parts.append(repr(value) if isfinite(value) else "null")
    else:
        parts.append("null" if value is None else str(value).lower())


def _write_map(members: dict[Any, Any], parts: list[str], quoted_keys: bool) -> None:
    opening = "{"
    for key in _ordered(members):
        value = members[key]
        # fastjson leaves members out that are null (RocketMQ spec 10).
        if value is None:
            continue
        parts.append(opening)
        opening = ","
        _write_key(key, parts, quoted_keys)
        parts.append(":")
        _write(value, parts, quoted_keys)
    parts.append("{}" if opening == "{" else "}")


def _ordered(members: dict[Any, Any]) -> list[Any]:
    keys = list(members)
    # Objects as keys stay in the order in which they were put.
    if all(isinstance(key, str) for key in keys) or all(isinstance(key, int) for key in keys):
        keys.sort()
    return keys


def _write_key(key: Any, parts: list[str], quoted_keys: bool) -> None:
    if isinstance(key, str):
        _write(key, parts, quoted_keys)
    elif isinstance(key, tuple):
        members = key._asdict() if hasattr(key, "_asdict") else dict(key)
        _write_map(members, parts, quoted_keys)
    else:
        parts.append(f'"{key}"' if quoted_keys else str(key))


# --- reading --------------------------------------------------------------------------------------


def loads(data: bytes | memoryview) -> Any:
    """The value of these bytes: JSON, with fastjson's extensions. Raises BodyError.

    Bare integer keys become ints (quoted ones stay strings, for the caller to convert), object keys
    ``ObjectKey``.
    """
    try:
        # The fast way first: most bodies are standard JSON, and only the others are read by our
        # reader.
        value = decode_json(data)
    except MALFORMED:
        pass
    else:
        if not _is_deep(value):
            return value
    try:
        text = bytes(data).decode("utf-8")
    except UnicodeDecodeError:
        raise BodyError("a body that is not UTF-8") from None
    reader = _Reader(text)
    value = reader.value(0)
    reader.end()
    return value


def loads_leniently(data: bytes | memoryview) -> Any:
    """The value of what a client has written, perhaps not in UTF-8. Raises BodyError."""
    # Java replaces what is not UTF-8: C++ clients send keys and tags in any encoding.
    return loads(bytes(data).decode("utf-8", "replace").encode())


def int_keys(value: Any) -> dict[int, Any]:
    """A map whose keys are integers, bare or quoted. Raises BodyError."""
    if not isinstance(value, dict):
        raise BodyError("a map was expected")
    try:
        return {int(key): item for key, item in value.items()}
    except (TypeError, ValueError):
        raise BodyError("a map with integers as keys was expected") from None


class _Reader:
    """A recursive reader for what standard JSON does not allow."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            self._fail("is nested too deeply")
        first = self._peek()
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._list(depth)
        if first in ("'", '"') and first:
            return self._string(first)
        number = _NUMBER.match(self._text, self._at)
        if number:
            self._at = number.end()
            return _number(number[0])
        word = _WORD.match(self._text, self._at)
        if word and word[0] in _WORDS:
            self._at = word.end()
            return _WORDS[word[0]]
        return self._fail("has an unknown word")

    def end(self) -> None:
        """Read to the end, where nothing but white space may follow."""
        if self._peek():
            self._fail("goes on behind its end")

    def _object(self, depth: int) -> dict[Any, Any]:
        members: dict[Any, Any] = {}
        self._at += 1
        while self._peek() != "}":
            key = self._key(depth)
            self._expect(":")
            members[key] = self.value(depth + 1)
            if self._peek() != "}":
                self._expect(",")
        self._at += 1
        return members

    def _list(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self._at += 1
        while self._peek() != "]":
            items.append(self.value(depth + 1))
            if self._peek() != "]":
                self._expect(",")
        self._at += 1
        return items

    def _key(self, depth: int) -> Any:
        first = self._peek()
        if first == "{":
            return _frozen(self.value(depth + 1))
        if first in ("'", '"') and first:
            return self._string(first)
        number = _NUMBER.match(self._text, self._at)
        word = number or _WORD.match(self._text, self._at)
        if word is None:
            self._fail("has no key where one must be")
        self._at = word.end()
        key = _number(word[0]) if number else word[0]
        return key if isinstance(key, int) else word[0]

    def _string(self, quote: str) -> str:
        plain = _PLAIN[quote]
        self._at += 1
        parts: list[str] = []
        while True:
            run = plain.match(self._text, self._at)
            assert run is not None
            parts.append(run[0])
            self._at = run.end() + 1
            if run.end() >= len(self._text):
                self._fail("ends inside a text")
            if self._text[run.end()] == quote:
                # Two escapes may be the halves of one character; half of one cannot be written as
                # UTF-8.
                return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            parts.append(self._escape())

    def _escape(self) -> str:
        letter = self._text[self._at : self._at + 1]
        self._at += 1
        if letter in ("u", "x"):
            length = 4 if letter == "u" else 2
            digits = self._text[self._at : self._at + length]
            self._at += length
            if len(digits) == length and all(c in "0123456789abcdefABCDEF" for c in digits):
                return chr(int(digits, 16))
            self._fail("has a broken escape")
        # An unknown escape is the letter itself, so that what a client has written is read somehow.
        return _ESCAPES.get(letter, letter)

    def _peek(self) -> str:
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()
        return self._text[self._at : self._at + 1]

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            self._fail(f"lacks a {mark!r}")
        self._at += 1

    def _fail(self, what: str) -> NoReturn:
        raise BodyError(f"JSON that {what} at character {self._at}")


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _is_deep(value: Any) -> bool:
    """True if it is nested more than DEPTH_MAX deep, which reading alone need not notice."""
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        members = ((str(name), _frozen(item)) for name, item in value.items())
        return tuple(sorted(members, key=itemgetter(0)))
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
