"""Flags as Go's programs read them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.settings.flags import FlagError, HelpRequested, parse_words
from penstock.core.settings.option_kinds import BOOL, INT, STRING, STRINGS

KINDS = {"name": STRING, "on": BOOL, "n": INT, "list": STRINGS}


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("", {}),
        ("-n 5", {"n": 5}),
        ("-n=5", {"n": 5}),
        ("--n 5", {"n": 5}),
        ("--n=5 --n=6", {"n": 6}),
        ("-on", {"on": True}),
        ("--on=false", {"on": False}),
        ("-on false -n 5", {"on": True}),
        ("-- -n 5", {}),
        ("word -n 5", {}),
        ("- -n 5", {}),
        ("-name -n", {"name": "-n"}),
        ("-name=a=b", {"name": "a=b"}),
        ("-name=", {"name": ""}),
        ("-list a --list=b,c", {"list": ("a", "b,c")}),
    ],
)
def test_parse(line: str, given: dict[str, Any]) -> None:
    assert parse_words(line.split(), KINDS)[0] == given


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--nope", "flag provided but not defined: -nope"),
        ("-nope=1", "flag provided but not defined: -nope"),
        ("-n", "flag needs an argument: -n"),
        ("-n x", 'invalid value "x" for flag -n: parse error'),
        ("-on=maybe", 'invalid boolean value "maybe" for -on: parse error'),
        ("---n", "bad flag syntax: ---n"),
        ("-=5", "bad flag syntax: -=5"),
    ],
)
def test_refused(line: str, text: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_words(line.split(), KINDS)
    assert str(caught.value) == text


@pytest.mark.parametrize("word", ["-h", "--h", "-help", "--help"])
def test_help(word: str) -> None:
    with pytest.raises(HelpRequested):
        parse_words([word], KINDS)


def test_the_words_after_the_flags() -> None:
    kinds = {"n": INT, "v": BOOL}
    assert parse_words(["-v", "-n", "1", "rest", "-v"], kinds) == (
        {"v": True, "n": 1},
        ("rest", "-v"),
    )
    assert parse_words(["--", "-v"], kinds) == ({}, ("-v",))
