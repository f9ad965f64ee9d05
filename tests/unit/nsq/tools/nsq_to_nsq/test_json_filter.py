from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.nsq.tools.nsq_to_nsq.json_filter import JsonFilter, Missing, NoObject, decode_object


def test_what_is_needed() -> None:
    assert not JsonFilter().is_needed
    assert not JsonFilter(value="1").is_needed
    assert JsonFilter(field="a").is_needed
    assert JsonFilter(kept=["a"]).is_needed


@pytest.mark.parametrize(
    "body",
    [
        b"not json", b"[1]", b'"s"', b"1", b"", b"{", b'{"a":1}x', b'{"a":01}', b'{"a":1.}',
        b'{"a":1e400}', b'{"a":-1e400}', b'{"b":{"c":[1e999]}}', b'{"a":' + b"9" * 400 + b"}",
        b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b"{'a':1}", b'{"a":1,}',
        b'{"a":"\n"}', b'\xef\xbb\xbf{"a":1}', b'\x0c{"a":1}', b'{"a":"\\x"}', b'{"a":+1}',
    ],
)  # fmt: skip
def test_no_object(body: bytes) -> None:
    with pytest.raises(NoObject):
        JsonFilter(field="a").apply(body)


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        (b'{"a":1,"b":"x","c":[1,{"z":1}]}', True),
        (b'{"a":null}', True),
        (b'{"a":1,"a":2}', True),
        (b' {"a":1} \r\n\t', True),
        (b'{"b":2}', False),
        (b"null", False),
        (b'{"A":1}', False),
    ],
)
def test_a_field_is_required(body: bytes, passes: bool) -> None:
    assert JsonFilter(field="a").apply(body) == (body if passes else None)


@pytest.mark.parametrize(
    ("value", "body", "passes"),
    [
        ("1", b'{"a":1}', True),
        ("1", b'{"a":1.0}', True),
        ("1", b'{"a":"1"}', True),
        ("1", b'{"a":true}', False),
        ("1", b'{"a":[1]}', False),
        ("1", b'{"a":null}', False),
        ("1", b'{"a":2,"a":1}', True),
        ("1", b'{"a":1,"a":2}', False),
        ("1e0", b'{"a":1}', True),
        ("1e0", b'{"a":"1e0"}', True),
        ("1e0", b'{"a":"1"}', False),
        ("+1.", b'{"a":1}', True),
        ("0x1p-2", b'{"a":0.25}', True),
        ("0x10", b'{"a":16}', False),
        ("0x1p99999", b'{"a":1}', False),
        ("1e400", b'{"a":1}', False),
        (" 1", b'{"a":1}', False),
        ("1_0", b'{"a":10}', False),
        ("\u0661", b'{"a":1}', False),
        ("nan", b'{"a":1}', False),
        ("inf", b'{"a":1}', False),
        ("9007199254740993", b'{"a":9007199254740992}', True),
        ("true", b'{"a":true}', False),
        ("true", b'{"a":"true"}', True),
        ("x", b'{"a":"X"}', False),
        ("\ufffd", b'{"a":"\\ud800"}', True),
        ("\ufffd\ufffd", b'{"a":"\xe2\x82"}', True),
    ],
)
def test_a_value_is_required(value: str, body: bytes, passes: bool) -> None:
    assert JsonFilter(field="a", value=value).apply(body) == (body if passes else None)


def test_a_field_that_is_missing_comes_again() -> None:
    for body in (b'{"b":1}', b"null"):
        with pytest.raises(Missing, match=r"^missing field to check required value$"):
            JsonFilter(field="a", value="1").apply(body)


@pytest.mark.parametrize(
    ("body", "passed_on"),
    [
        ('{"a":1,"b":"<x>&\'é","c":3}', '{"a":1,"b":"\\u003cx\\u003e\\u0026\'é"}'),
        ('{"c":1}', "{}"),
        ("null", "{}"),
        ('{ "b" : 1.5 , "a" : [1.0, {"y":1,"x":2}] }', '{"a":[1,{"x":2,"y":1}],"b":1.5}'),
        ('{"a":1e3,"b":12345678901234567890}', '{"a":1000,"b":12345678901234567000}'),
        ('{"a":-0.0,"b":[-0.0]}', '{"a":0,"b":[-0]}'),
        ('{"a":9007199254740993,"b":1e21}', '{"a":9007199254740992,"b":1e+21}'),
        ('{"a":{"z":1.0,"b":1e21},"b":0.0000001}', '{"a":{"b":1e+21,"z":1},"b":1e-7}'),
        ('{"a":1234567890123456789}', '{"a":1234567890123456768}'),
        ('{"a":[1234567890123456789]}', '{"a":[1234567890123456800]}'),
        ('{"a":9223372036854775807}', '{"a":9223372036854776000}'),
        ('{"a":-9223372036854775808}', '{"a":-9223372036854775808}'),
        ('{"a":"\\u2028\\u0001\\ud800"}', '{"a":"\\u2028\\u0001\ufffd"}'),
        ('{"a":"\\ud83d\\ude00\\ud800\\ud83d\\ude00"}', '{"a":"😀\ufffd😀"}'),
        ('{"a":{"\\ud800":1,"\\u00e9":2}}', '{"a":{"é":2,"\ufffd":1}}'),
        ('{"a":true,"b":null}', '{"a":true,"b":null}'),
        ('{"a":"\\/\\b\\f\\u007f"}', '{"a":"/\\b\\f\x7f"}'),
    ],
)
def test_only_some_fields_are_kept(body: str, passed_on: str) -> None:
    kept = JsonFilter(kept=["b", "a", "zz", "a"])
    assert kept.apply(body.encode()) == passed_on.encode()


def test_bytes_that_are_no_text_become_one_mark_each() -> None:
    kept = JsonFilter(kept=["a"])
    assert kept.apply(b'{"a":"\xff\xe2\x82\xed\xa0\x80."}') == (
        b'{"a":"' + "\ufffd".encode() * 6 + b'."}'
    )


def test_field_and_kept() -> None:
    both = JsonFilter(field="a", kept=["b"])
    assert both.apply(b'{"a":1,"b":2}') == b'{"b":2}'
    assert both.apply(b'{"b":2}') is None


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=6,
)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.text(), json_values))
def test_whatever_is_json_keeps_its_meaning(fields: dict[str, object]) -> None:
    passed_on = JsonFilter(kept=[*fields, "more"]).apply(json.dumps(fields).encode())
    assert passed_on is not None
    assert decode_object(passed_on) == fields


@settings(max_examples=25, deadline=None)
@given(st.binary())
def test_any_bytes(body: bytes) -> None:
    try:
        passed_on = JsonFilter(kept=["a"]).apply(body)
    except NoObject:
        return
    assert passed_on is not None
    json.loads(passed_on)


@settings(max_examples=25, deadline=None)
@given(st.floats(allow_nan=False))
def test_numbers_out_of_range(number: float) -> None:
    body = json.dumps({"a": number}).encode()
    if math.isinf(number):
        with pytest.raises(NoObject):
            decode_object(body)
    else:
        assert decode_object(body) == {"a": number}
