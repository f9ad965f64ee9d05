from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("-0", 0),
        ("1m30s", 90 * SECOND),
        ("250ms", 250 * MILLISECOND),
        ("1.5h", 90 * MINUTE),
        (".5s", 500 * MILLISECOND),
        ("1.s", SECOND),
        ("-1m", -MINUTE),
        ("+5s", 5 * SECOND),
        ("3us", 3_000),
        ("3µs", 3_000),
        ("3μs", 3_000),
        ("7ns", 7),
        ("1h1m1s1ms1us1ns", HOUR + MINUTE + SECOND + MILLISECOND + 1_001),
        ("0.9999999999s", 999_999_999),
        ("9223372036854775807ns", (1 << 63) - 1),
        ("-9223372036854775808ns", -(1 << 63)),
    ],
)
def test_parse(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("5", 'time: missing unit in duration "5"'),
        ("1m5", 'time: missing unit in duration "1m5"'),
        ("abc", 'time: invalid duration "abc"'),
        (".s", 'time: invalid duration ".s"'),
        ("-", 'time: invalid duration "-"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("5 s", 'time: unknown unit " s" in duration "5 s"'),
        ('5"', 'time: unknown unit "\\"" in duration "5\\""'),
        ("5é", 'time: unknown unit "\\xc3\\xa9" in duration "5\\xc3\\xa9"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
    ],
)
def test_parse_refuses_with_gos_text(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (85_968, "85.968µs"),
        (2_200_000, "2.2ms"),
        (SECOND, "1s"),
        (1_500_000_000, "1.5s"),
        (MINUTE, "1m0s"),
        (90 * SECOND, "1m30s"),
        (HOUR, "1h0m0s"),
        (HOUR + 5, "1h0m0.000000005s"),
        (-90 * SECOND, "-1m30s"),
        ((1 << 63) - 1, "2562047h47m16.854775807s"),
    ],
)
def test_format(ns: int, text: str) -> None:
    assert format_duration(ns) == text


@given(st.integers(-(1 << 63) + 1, (1 << 63) - 1))
def test_what_is_formatted_parses_back(ns: int) -> None:
    assert parse_duration(format_duration(ns)) == ns
