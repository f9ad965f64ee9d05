"""The filter for JSON messages, and for their fields, as upstream decides (NSQ spec 6.6).

What Go's encoding/json makes of a message shows: numbers become 64-bit floats, keys are sorted,
``<``, ``>`` and ``&`` are escaped, half a surrogate pair is U+FFFD, ``null`` is an object without
fields.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import resource
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from penstock.core import gojson
from penstock.core.errors import PenstockError

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_SPACE = " \t\r\n"
_INT64 = 1 << 63
_RECURSION = 21_000
"""Go reads 10,000 levels; writing them takes two calls for each."""
_STACK = 8 << 20
"""Bytes; half of them would do."""
_BYTE_BY_BYTE = "penstock.replace-each-byte"

codecs.register_error(_BYTE_BY_BYTE, lambda error: ("\ufffd", getattr(error, "start", 0) + 1))


class NoObject(PenstockError):
    """The message is not a JSON object; null counts as an empty one."""


class Missing(PenstockError):
    """The field whose value decides is not there; the message is to come again later."""


class JsonFilter:
    """A filter of messages by ``field`` and ``value``, which keeps only the fields in ``kept``.

    An empty ``field`` requires none, an empty ``value`` accepts any value, an empty ``kept`` keeps
    all fields.
    """

    def __init__(self, field: str = "", value: str = "", kept: Sequence[str] = ()) -> None:
        self._field = field
        self._value = value
        self._number = _go_float(value)
        self._kept = frozenset(kept)
        if self.is_needed:
            _allow_depth()

    @property
    def is_needed(self) -> bool:
        """True if messages must be parsed; a ``value`` alone does not need that."""
        # nsq_to_nsq in Go does nothing with --require-json-value alone.
        return bool(self._field or self._kept)

    def apply(self, body: bytes) -> bytes | None:
        """The body that is to be passed on; None when the message does not pass.

        Raises NoObject, and Missing where ``field`` must have a value and is not there.
        """
        try:
            fields = decode_object(body)
            if not self._passes(fields):
                return None
            return self._cut(fields) if self._kept else body
        except RecursionError:
            raise NoObject("nested too deeply") from None

    def _passes(self, fields: dict[str, Any]) -> bool:
        if not self._field:
            return True
        if self._field not in fields:
            # In Go a missing field is dropped, but requeued with backoff if it must have a value.
            if self._value:
                raise Missing("missing field to check required value")
            return False
        found = fields[self._field]
        if not self._value:
            return True
        if type(found) is str:
            return bool(found == self._value)
        # Go compares texts and numbers only: true, null, lists and objects never match.
        return type(found) is float and found == self._number

    def _cut(self, fields: dict[str, Any]) -> bytes:
        # Go publishes {} if none of the fields is there.
        kept = {name: _whole(fields[name]) for name in self._kept & fields.keys()}
        return gojson.dumps(kept, sort_keys=True)


def _allow_depth() -> None:
    """Let messages nest as deeply as Go does, where the stack is of the usual size."""
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if stack == resource.RLIM_INFINITY or stack >= _STACK:
        sys.setrecursionlimit(max(_RECURSION, sys.getrecursionlimit()))


def decode_object(body: bytes) -> dict[str, Any]:
    """The fields of a JSON object as Go reads them; of equal names the last counts.

    Raises NoObject.
    """
    text = body.decode("utf-8", _BYTE_BY_BYTE).strip(_SPACE)
    try:
        value, end = _decoder.raw_decode(text)
    except ValueError as error:
        raise NoObject(str(error)) from None
    if end != len(text):
        raise NoObject("something follows the JSON value")
    # Go reads null into a map without an error, and so without fields.
    if value is None:
        return {}
    if type(value) is not dict:
        raise NoObject("not an object")
    return _without_surrogates(value) if "\\u" in text else value


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is out of range")
    return value


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


_decoder = json.JSONDecoder(parse_float=_number, parse_int=_number, parse_constant=_refuse)


def _without_surrogates(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return _SURROGATES.sub("\ufffd", value)
    if kind is dict:
        return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}
    if kind is list:
        return [_without_surrogates(each) for each in value]
    return value


def _whole(value: Any) -> Any:
    """A kept field that fits 64 bits is written as the integer it exactly is, so -0.0 as 0."""
    if type(value) is float and value.is_integer() and -_INT64 <= value < _INT64:
        return int(value)
    return value


def _go_float(text: str) -> float | None:
    """The number that Go's ParseFloat reads; None for none, and for one no message can have."""
    try:
        if _HEXADECIMAL.fullmatch(text):
            return float.fromhex(text)
        return _number(text) if _DECIMAL.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None
