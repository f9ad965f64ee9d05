"""Declarations of options."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.options import boolean, option, parse, positive, table, text


@dataclass(frozen=True)
class Options:
    name: str = option("fullName", text, "nobody", "A name.", shown="nobody")
    count: int | None = option("count", positive, None, "How many.")
    secret: str = option("secret", text, "", "Nobody sees it.", secret=True)
    derived: int = 5


def test_texts_become_fields_whatever_the_case() -> None:
    given = {"FULLNAME": "a", "count": " 3 ", "path": "x"}
    assert parse(Options, given, {"path"}) == {"name": "a", "count": 3}


@pytest.mark.parametrize(
    ("unknown", "said"),
    [
        ("fulname", "format nsq knows no option fulname; did you mean fullName?"),
        ("colour", "format nsq knows no option colour"),
        ("derived", "format nsq knows no option derived"),
    ],
)
def test_an_unknown_option(unknown: str, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse(Options, {unknown: "1"}, set())
    assert str(refused.value) == said


@pytest.mark.parametrize("given", ["0", "-1", "x", ""])
def test_a_count_is_positive(given: str) -> None:
    with pytest.raises(OptionError, match="count must be a positive whole number, not "):
        parse(Options, {"count": given}, set())


def test_true_or_false() -> None:
    assert boolean("a", "TRUE") is True
    assert boolean("a", " false") is False


def test_the_documentation() -> None:
    assert table(Options) == (
        "| option | default | |\n|---|---|---|\n| `fullName` | `nobody` | A name. |\n"
        "| `count` |  | How many. |\n| `secret` |  | Nobody sees it. |\n"
    )


def test_a_secret_is_not_shown() -> None:
    assert "hidden" not in repr(Options(secret="hidden"))
