"""Options: what each kind reads, how it shows, and go-nsq's texts of refusal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.core.settings.client_options import (
    CODE_ONLY,
    COUNT,
    FILE,
    FRACTION,
    SECONDS,
    OneOf,
    Option,
    option,
    options_of,
)
from penstock.core.settings.option_kinds import BOOL, INT, STRING, Kind
from penstock.nsq.client.config import ADDRESS

COLOUR = OneOf("red", "blue", empty="red", refusal="{} is not a colour")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (STRING, "a b", "a b"),
        (BOOL, "T", True),
        (BOOL, "0", False),
        (INT, "-1", -1),
        (COUNT, "70000", 70_000),
        (FRACTION, ".5", 0.5),
        (SECONDS, "1m30s", 90.0),
        (SECONDS, "250ms", 0.25),
        (SECONDS, "-1ns", -1e-9),
        (ADDRESS, "127.0.0.1:0", "127.0.0.1:0"),
        (COLOUR, "blue", "blue"),
        (COLOUR, "", "red"),
        (FILE, __file__, __file__),
    ],
)
def test_reading(kind: Kind, text: str, value: Any) -> None:
    assert Option("x", None, kind, "").read(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (BOOL, "maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax'),
        (INT, "1.5", 'strconv.ParseInt: parsing "1.5": invalid syntax'),
        (INT, str(1 << 63), f'strconv.ParseInt: parsing "{1 << 63}": value out of range'),
        (COUNT, "-1", 'strconv.ParseUint: parsing "-1": invalid syntax'),
        (COUNT, "\u0665", 'strconv.ParseUint: parsing "\u0665": invalid syntax'),
        (FRACTION, "nan", 'strconv.ParseFloat: parsing "nan": invalid syntax'),
        (SECONDS, "3000", 'time: missing unit in duration "3000"'),
        (SECONDS, "zz", 'time: invalid duration "zz"'),
        (ADDRESS, "here", "address here: missing port in address"),
        (COLOUR, "green", '"green" is not a colour'),
        (FILE, "/no/such", "no such file or directory"),
        (CODE_ONLY, "x", "invalid value type"),
    ],
)
def test_refused(kind: Kind, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Option("x", None, kind, "").read(text)
    assert str(refused.value) == f"failed to coerce option x ({text}) - {reason}"


def test_only_a_switch_may_stand_without_a_value() -> None:
    assert Option("x", False, BOOL, "").read(True) is True
    with pytest.raises(ConfigError, match=r"failed to coerce option x \(true\) - invalid value"):
        Option("x", 5, COUNT, "").read(True)


def test_bounds() -> None:
    bounded = Option("x", 1.0, SECONDS, "", least=0.1, most=300)
    assert (bounded.read("100ms"), bounded.read("5m")) == (0.1, 300.0)
    with pytest.raises(ConfigError, match=r"^invalid x ! 10ms < 100ms$"):
        bounded.read("10ms")
    with pytest.raises(ConfigError, match=r"^invalid x ! 5m1s > 5m0s$"):
        bounded.read("301s")


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("kind", [SECONDS, INT, FRACTION])
def test_a_number_is_finite(kind: Kind, value: float) -> None:
    for given in (Option("x", 1, kind, "", least=0.1, most=300), Option("x", 1, kind, "")):
        with pytest.raises(ConfigError, match=rf"^invalid x ! {value} is not a finite number$"):
            given.check(value)
    with pytest.raises(ConfigError, match=r"^invalid x ! inf is not a finite number$"):
        Option("x", 1, FRACTION, "").read("1e999")


def test_a_word_given_in_code_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r'^invalid x ! "green" is not red, blue$'):
        Option("x", "red", COLOUR, "").check("green")


def test_the_range_in_words() -> None:
    assert Option("x", 0, SECONDS, "", least=1, most=300).range == "1s to 5m0s"
    assert Option("x", 0, INT, "", least=0).range == "at least 0"
    assert Option("x", 0, INT, "").range == ""


def test_declared_as_fields() -> None:
    @dataclass(frozen=True)
    class Settings:
        colour: str = option("red", COLOUR, "What it looks like.")
        weight: int = option(3, INT, least=1)

    assert Settings().weight == 3
    declared = options_of(Settings)
    assert list(declared) == ["colour", "weight"]
    assert declared["weight"] == Option("weight", 3, INT, "", least=1)
