"""JSON as Go reads and writes it, and what our own reader finds malformed."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.gojson import Kind, Schema, dumps, format_float, loads_struct
from penstock.core.malformed import MALFORMED

FIELDS = {"name": Kind.STRING, "on": Kind.BOOL, "size": Kind.INT, "rate": Kind.INT32}
EMPTY = {"name": "", "on": False, "size": 0, "rate": 0}


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ({"b": 1, "a": [True, None]}, b'{"b":1,"a":[true,null]}'),
        ("<a>&\u2028\u2029", b'"\\u003ca\\u003e\\u0026\\u2028\\u2029"'),
        ("é€🎉", '"é€🎉"'.encode()),
        ("a\ud800b", '"a\ufffdb"'.encode()),
        ('"\\\n\t\x00', b'"\\"\\\\\\n\\t\\u0000"'),
        ((1, 2), b"[1,2]"),
        ({"k": {"q": 0.99, "v": 1234.0}}, b'{"k":{"q":0.99,"v":1234}}'),
        (-6795364578871345152, b"-6795364578871345152"),
        ([], b"[]"),
    ],
)
def test_dumps(value: Any, encoded: bytes) -> None:
    assert dumps(value) == encoded


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.5, "0.5"),
        (-2.25, "-2.25"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (1e-6, "0.000001"),
        (1.5e-5, "0.000015"),
        (1e-7, "1e-7"),
        (1.25e-9, "1.25e-9"),
        (123456789.125, "123456789.125"),
        (12345678901234567890.0, "12345678901234567000"),
        (-1e16, "-10000000000000000"),
    ],
)
def test_floats_are_gos(value: float, text: str) -> None:
    assert format_float(value) == text


def test_keys_in_order_as_of_a_map() -> None:
    value = {"é": 1, "b": {"d": 1.5, "c": [{"z": None, "y": 1e30}]}, "B": ()}
    assert (
        dumps(value, sort_keys=True)
        == '{"B":[],"b":{"c":[{"y":1e+30,"z":null}],"d":1.5},"é":1}'.encode()
    )


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_read_back(value: float) -> None:
    assert float(format_float(value)) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say(value: float) -> None:
    with pytest.raises(ValueError, match="unsupported value"):
        dumps([value])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_dumps_is_json(value: Any) -> None:
    assert json.loads(dumps(value)) == value


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        (b"{}", {}),
        (b"null", {}),
        (b' \t\r\n{"name": "a"} ', {"name": "a"}),
        (b'{"NAME": "a", "On": true}', {"name": "a", "on": True}),
        (b'{"name": "a", "NAME": "b"}', {"name": "b"}),
        (b'{"name": "a", "name": null}', {"name": "a"}),
        (b'{"size": -0, "rate": -2147483648}', {"size": 0, "rate": -(1 << 31)}),
        (b'{"other": [1.5, {"x": null}], "size": 3}', {"size": 3}),
        (b'{"name": "\\ud800x"}', {"name": "\ufffdx"}),
        (b'{"name": "\xffx"}', {"name": "\ufffdx"}),
        ('{"\u017fize": 4}'.encode(), {"size": 4}),
    ],
)
def test_loads_struct(data: bytes, changes: dict[str, Any]) -> None:
    assert loads_struct(data, FIELDS) == {**EMPTY, **changes}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'"x"',
        b"3",
        b"true",
        b'{"a":',
        b'{"a":1,}',
        b"{} x",
        b"{}{}",
        b"\xef\xbb\xbf{}",
        b'{"x": NaN}',
        b'{"x": Infinity}',
        b'{"x": 01}',
        b'{"x": "\x01"}',
        b'{"size": 1.0}',
        b'{"size": 1e3}',
        b'{"size": "1"}',
        b'{"size": true}',
        b'{"size": 9223372036854775808}',
        b'{"rate": 2147483648}',
        b'{"on": 1}',
        b'{"on": "true"}',
        b'{"name": 5}',
        b'{"name": ["a"]}',
        b'{"name": {}}',
        b"[" * 20_000,
        b'{"x": ' + b"9" * 5000 + b"}",
    ],
)
def test_loads_struct_refuses(data: bytes) -> None:
    with pytest.raises(ValueError):
        loads_struct(data, FIELDS)


NESTED: dict[str, Schema] = {
    "words": [Kind.STRING],
    "items": [{"size": Kind.INT, "words": [Kind.STRING]}],
    "one": {"on": Kind.BOOL},
}
NOTHING = {"words": [], "items": [], "one": {"on": False}}


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        (b"{}", {}),
        (b'{"words": null, "items": null, "one": null}', {}),
        (b'{"words": ["a", null, "b"]}', {"words": ["a", "", "b"]}),
        (b'{"words": ["a"], "WORDS": []}', {"words": []}),
        (
            b'{"items": [null, {"Size": 3, "words": ["x"], "other": 1}]}',
            {"items": [{"size": 0, "words": []}, {"size": 3, "words": ["x"]}]},
        ),
        (b'{"one": {"on": true}}', {"one": {"on": True}}),
    ],
)
def test_lists_and_structs_within(data: bytes, changes: dict[str, Any]) -> None:
    assert loads_struct(data, NESTED) == {**NOTHING, **changes}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "array into the whole of type struct"),
        (b'{"words": "a"}', "string into words of type list"),
        (b'{"words": {}}', "object into words of type list"),
        (b'{"words": [[]]}', "array into words of type string"),
        (b'{"items": [[]]}', "array into items of type struct"),
        (b'{"items": [{"size": 1.0}]}', "number 1.0 into size of type int"),
        (b'{"one": []}', "array into one of type struct"),
    ],
)
def test_what_does_not_fit_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        loads_struct(data, NESTED)
    assert str(caught.value) == f"json: cannot unmarshal {reason}"


def test_zero_values_are_not_shared() -> None:
    first, second = loads_struct(b"{}", NESTED), loads_struct(b"{}", NESTED)
    first["words"].append("x")
    first["one"]["on"] = True
    assert second == NOTHING


class Known(msgspec.Struct):
    name: str = ""


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"name":1}', b'{"name":"\xff"}', b'{"unknown":' + b"[" * 100_000],
    ids=["nothing", "cut short", "another type", "another type within", "no UTF-8", "nested"],
)
def test_whatever_is_wrong_is_one_of_them(data: bytes) -> None:
    with pytest.raises(MALFORMED):
        msgspec.json.decode(data, type=Known)
