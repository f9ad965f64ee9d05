"""JSON as Go's encoding/json writes and reads it, because NSQ's clients and tests compare bytes.

Writing: compact, UTF-8, ``<``, ``>``, ``&``, U+2028 and U+2029 escaped, 1.0 as ``1``. Reading into
a struct: keys match in any case, ``null`` leaves a field alone, the last of equal keys wins, and
types are strict (1.0 is not an integer), in lists and in structs within structs as well.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

_ESCAPES = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    b"\xe2\x80\xa8": b"\\u2028",
    b"\xe2\x80\xa9": b"\\u2029",
}
_ESCAPED = re.compile(b"[<>&]|\xe2\x80[\xa8\xa9]")
_MARKS = (b"<", b">", b"&", b"\xe2\x80")
_SURROGATES = re.compile("[\ud800-\udfff]")
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def dumps(value: Any, *, sort_keys: bool = False) -> bytes:
    """``value`` (dicts, lists, strings, numbers, None) as Go would marshal it.

    Keys keep their order, as a struct's fields do, or are sorted, as a map's keys are. ValueError
    for NaN and infinities, which Go refuses too.
    """
    encoded = (_encode_sorted if sort_keys else _encode)(_prepared(value))
    if not any(mark in encoded for mark in _MARKS):  # far quicker than looking for all at once
        return encoded
    # These characters stand only inside strings, so replacing them afterwards is safe.
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], encoded)


def _prepared(value: Any) -> Any:
    """Make final what msgspec would write differently from Go."""
    kind = type(value)
    if kind is str:
        # Half of a surrogate pair is U+FFFD for Go; msgspec would refuse it.
        return value if value.isascii() else _SURROGATES.sub("\ufffd", value)
    if kind is int or kind is bool or value is None:
        return value
    if kind is dict:
        return {_prepared(key): _prepared(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_prepared(item) for item in value]
    if kind is float:
        return msgspec.Raw(format_float(value).encode())
    return value


def format_float(value: float) -> str:
    """A float as Go's encoder writes it: ``1``, ``0.5``, ``1e-7``, ``1e+21``."""
    if not math.isfinite(value):
        raise ValueError(f"json: unsupported value: {value}")
    size = abs(value)
    # The bounds of Go's encoder (encoding/json, floatEncoder), which are JavaScript's.
    if size != 0 and (size < 1e-6 or size >= 1e21):
        mantissa, exponent = repr(value).split("e") if "e" in repr(value) else _scientific(value)
        power = int(exponent)
        return f"{mantissa.removesuffix('.0')}e{'-' if power < 0 else '+'}{abs(power)}"
    text = repr(value).removesuffix(".0")
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    whole, _, fraction = mantissa.partition(".")
    power = int(exponent)
    if power > 0:  # zeros after the digits that matter, not what the float exactly is
        return whole + fraction + "0" * (power - len(fraction))
    return f"{value:.{len(fraction) - power}f}"


def _scientific(value: float) -> tuple[str, str]:
    for digits in range(17):
        text = f"{value:.{digits}e}"
        if float(text) == value:
            break
    mantissa, exponent = text.split("e")
    return mantissa, exponent


class Kind(enum.Enum):
    """The type a struct field has in Go."""

    STRING = "string"
    BOOL = "bool"
    INT = "int"
    INT32 = "int32"


Schema = Kind | list["Schema"] | Mapping[str, "Schema"]
"""The form of a value: a kind, a list (its one item is the schema of the items), or a struct."""

_ZERO: dict[Kind, Any] = {Kind.STRING: "", Kind.BOOL: False, Kind.INT: 0, Kind.INT32: 0}
_LIMIT = {Kind.INT: 1 << 63, Kind.INT32: 1 << 31}


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs in order, so that a later equal key can win."""


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"json: invalid character in literal {word}")


_decoder = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_refuse_constant)


def loads_struct(data: bytes, fields: Mapping[str, Schema]) -> dict[str, Any]:
    """The named fields of a JSON object, absent ones as Go's zero value; other keys are ignored.

    ValueError when the bytes are not one JSON object (or null), or a value is not what its field
    is to be.
    """
    return _struct("the whole", fields, _decode(data))


def _struct(name: str, fields: Mapping[str, Schema], value: Any) -> dict[str, Any]:
    result = {field: _zero(schema) for field, schema in fields.items()}
    if value is None:
        return result
    if not isinstance(value, _Pairs):
        raise _misfit(value, name, "struct")
    folded = {_fold(field): field for field in fields}
    for key, item in value:
        field = key if key in fields else folded.get(_fold(key))
        if field is not None and item is not None:
            result[field] = _checked(field, fields[field], item)
    return result


def _zero(schema: Schema) -> Any:
    if isinstance(schema, Kind):
        return _ZERO[schema]
    return [] if isinstance(schema, list) else _struct("", schema, None)


def _decode(data: bytes) -> Any:
    # Go turns bytes that are not UTF-8 into U+FFFD instead of refusing them.
    text = data.decode("utf-8", "replace").strip(" \t\r\n")
    try:
        value, end = _decoder.raw_decode(text)
    except RecursionError as error:
        raise ValueError("json: exceeded max depth") from error
    if end != len(text):
        raise ValueError(f"json: invalid character {text[end]!r} after top-level value")
    return value


def _checked(name: str, schema: Schema, value: Any) -> Any:
    if isinstance(schema, Mapping):
        return _struct(name, schema, value)
    if isinstance(schema, list):
        if type(value) is not list:
            raise _misfit(value, name, "list")
        (each,) = schema
        return [_zero(each) if item is None else _checked(name, each, item) for item in value]
    if schema is Kind.STRING:
        fits = type(value) is str
        value = _SURROGATES.sub("\ufffd", value) if fits else value
    elif schema is Kind.BOOL:
        fits = type(value) is bool
    else:  # a bool is an int in Python, but not in Go
        fits = type(value) is int and -_LIMIT[schema] <= value < _LIMIT[schema]
    if not fits:
        raise _misfit(value, name, schema.value)
    return value


def _misfit(value: Any, name: str, wanted: str) -> ValueError:
    return ValueError(f"json: cannot unmarshal {_type_name(value)} into {name} of type {wanted}")


def _fold(key: str) -> str:
    # Go folds by simple case folding: the long s and the Kelvin sign match s and k.
    return key.lower().replace("\u017f", "s")


def _type_name(value: Any) -> str:
    if isinstance(value, _Pairs):
        return "object"
    names = {str: "string", bool: "bool", list: "array"}
    return names.get(type(value), f"number {value}")
