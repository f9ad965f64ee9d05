from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.core.settings.option_kinds import (
    BOOL,
    DURATION,
    FLOAT,
    FLOATS,
    INT,
    LOG_LEVEL,
    STRING,
    STRINGS,
    FatalFlagError,
    Kind,
    kind_of,
)

SECOND = 1_000_000_000
NINES = "9" * 20


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (STRING, " x ", " x "),
        (BOOL, "T", True),
        (BOOL, "0", False),
        (INT, "12", 12),
        (INT, "-0x1F", -31),
        (INT, "0b101", 5),
        (INT, "017", 15),
        (INT, "0_17", 15),
        (INT, "1_000", 1000),
        (INT, "+5", 5),
        (INT, "0", 0),
        (DURATION, "1m", 60 * SECOND),
        (DURATION, "0", 0),
        (STRINGS, "a,b", ("a,b",)),
        (FLOATS, "0.5,1.0", (0.5, 1.0)),
        (FLOAT, "0.5", 0.5),
        (LOG_LEVEL, "WARN", logging.WARNING),
    ],
)
def test_from_flag(kind: Kind, text: str, value: Any) -> None:
    assert kind.from_flag(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (BOOL, "maybe", "parse error"),
        (BOOL, "", "parse error"),
        (INT, "x", "parse error"),
        (INT, "1__0", "parse error"),
        (INT, "08", "parse error"),
        (INT, " 1", "parse error"),
        (INT, "٣", "parse error"),
        (INT, "9223372036854775808", "value out of range"),
        (DURATION, "5", "parse error"),
        (LOG_LEVEL, "x", "invalid log level 'x' (debug, info, warn, error, fatal)"),
        (FLOATS, "0.5,x", "Could not parse: x"),
    ],
)
def test_from_flag_refuses(kind: Kind, text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind.from_flag(text)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("kind", "toml", "value"),
    [
        (STRING, 5, "5"),
        (STRING, True, "true"),
        (BOOL, True, True),
        (BOOL, "false", False),
        (BOOL, 1, True),
        (INT, "55", 55),
        (INT, 7, 7),
        (DURATION, 2000, 2 * SECOND),
        (DURATION, "1500ms", 1_500_000_000),
        (STRINGS, ["a", "b"], ("a", "b")),
        (STRINGS, "a,b", ("a", "b")),
        (STRINGS, "", ()),
        (FLOATS, [0.5, 1], (0.5, 1.0)),
        (FLOATS, "0.5,0.9", (0.5, 0.9)),
        (FLOATS, "0.5, 0.9 ", (0.5, 0.9)),
        (FLOATS, 0.5, (0.5,)),
        (FLOAT, 1, 1.0),
        (LOG_LEVEL, "debug", logging.DEBUG),
    ],
)
def test_from_config(kind: Kind, toml: Any, value: Any) -> None:
    assert kind.from_config(toml) == value


@pytest.mark.parametrize(
    ("kind", "toml", "reason"),
    [
        (BOOL, "maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax'),
        (BOOL, 1.5, "invalid bool value type float64"),
        (INT, "x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        (INT, NINES, f'strconv.ParseInt: parsing "{NINES}": value out of range'),
        (INT, 1 << 63, "value out of range"),
        (INT, 1.5, "invalid int64 value type float64"),
        (INT, True, "invalid int64 value type bool"),
        (DURATION, 1.5, "invalid time.Duration value type float64"),
        (DURATION, "5", 'time: missing unit in duration "5"'),
        (STRINGS, [1], "invalid []string value type []interface {}"),
        (STRINGS, {}, "invalid []string value type map[string]interface {}"),
        (FLOAT, True, "invalid float64 value type bool"),
        (FLOATS, [True], "invalid []float64 value type []interface {}"),
        (FLOATS, "0.5,x", 'strconv.ParseFloat: parsing "x": invalid syntax'),
        (DURATION, 1 << 50, "value out of range"),
    ],
)
def test_from_config_refuses(kind: Kind, toml: Any, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind.from_config(toml)
    assert str(caught.value) == reason


def test_repeated_flags() -> None:
    assert INT.accumulate(1, 2) == 2
    assert STRINGS.accumulate(None, ("a",)) == ("a",)
    assert STRINGS.accumulate(("a",), ("b",)) == ("a", "b")
    assert FLOATS.accumulate((1.0, 0.5), (0.9,)) == (1.0, 0.9, 0.5)


@pytest.mark.parametrize(
    ("kind", "value", "shown", "default"),
    [
        (STRING, "x", "x", '"x"'),
        (STRING, "", "", ""),
        (BOOL, True, "true", "true"),
        (BOOL, False, "false", ""),
        (INT, 5, "5", "5"),
        (INT, 0, "0", ""),
        (DURATION, 60 * SECOND, "1m0s", "1m0s"),
        (DURATION, 0, "0s", ""),
        (STRINGS, ("a", "b"), "[a b]", "a,b"),
        (FLOATS, (1.0, 0.5), "[1 0.5]", "1,0.5"),
        (FLOAT, 1.0, "1", "1"),
        (LOG_LEVEL, logging.INFO, "INFO", "INFO"),
    ],
)
def test_shown(kind: Kind, value: Any, shown: str, default: str) -> None:
    assert kind.show(value) == shown
    assert kind.show_default(value) == default


def test_kind_of() -> None:
    assert [kind_of(x) for x in (True, 1, "", ())] == [BOOL, INT, STRING, STRINGS]
    with pytest.raises(TypeError):
        kind_of(1.5)


def test_a_bad_percentile_is_fatal() -> None:
    with pytest.raises(FatalFlagError):
        FLOATS.from_flag("nan")
