"""Filter expressions: values, NULL, errors with a place, and nothing else on garbage."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.broker.state.sql92 import Expression, ExpressionError

MESSAGE = {"TAGS": "TagA", "a": "3", "b": "3.5", "name": "it's", "yes": "true", "no": "FALSE"}


@pytest.mark.parametrize(
    "text",
    [
        "a = 3", "a = 3.0", "a=3l", "b > 3", "a >= 3 AND a <= 3", "a <> 4", "a between 0 and 3",
        "a NOT BETWEEN 4 AND 5", "TAGS in ('TagA', 'TagB')", "TAGS NOT IN ('x')", "TAGS = 'TagA'",
        "none IS NULL", "a is not null", "name = 'it''s'", "yes", "yes = TRUE", "no = false",
        "NOT no", "NOT NOT yes", "(a > 1 OR none > 1) AND NOT (a > 5)", "a > -1", "a < +4",
        "a > b OR b > a", "b > .5e1 or b < 1e2", "name CONTAINS 't''s'", "TAGS STARTSWITH 'Tag'",
        "TAGS NOT ENDSWITH 'B'", "TRUE", "a = 3 OR none = 1", "not (none is not null)",
    ],
)  # fmt: skip
def test_what_passes(text: str) -> None:
    assert Expression(text).matches(MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "a = 4", "none = 1", "none <> 1", "NOT (none = 1)", "name > 3", "NOT (name > 3)", "a",
        "none", "FALSE", "NULL", "none IN ('x')", "none NOT IN ('x')", "A = 3", "a = '4'",
        "a = 3 AND none = 1", "none BETWEEN 1 AND 2", "none NOT BETWEEN 1 AND 2",
        "none CONTAINS ''",
    ],
)  # fmt: skip
def test_what_does_not(text: str) -> None:
    assert not Expression(text).matches(MESSAGE)


def test_a_number_in_quotes_is_a_text() -> None:
    assert Expression("a = '3'").matches({"a": "3"})
    assert not Expression("a = '3.0'").matches({"a": "3"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a > > 3", "expected a property, .* at character 5 .* found '> 3'"),
        ("", "found 'the end'"),
        ("a = ", "found 'the end'"),
        ("a = 3 b", "expected the end at character 7"),
        ("a > 'x'", "have no order"),
        ("a between 'x' and 3", "have no order"),
        ("a in ()", "a text in single quotes"),
        ("a in ('x'", r"expected \)"),
        ("a not 3", "expected BETWEEN, IN"),
        ("a = 'x", "expected a name"),
        ("a # 3", "expected a name"),
        ("a is 3", "expected NULL"),
        ("- a", "expected a number"),
        ("(" * 200, "nested more than 100"),
        ("a = " + "1" * 20_000, "more than 16384 characters"),
    ],
)
def test_errors_say_where(text: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=says):
        Expression(text)


WORDS = """a b ( ) , = <> > >= < <= - + 3 4.5 'x' AND OR NOT IN IS NULL BETWEEN TRUE CONTAINS"""
words = st.sampled_from(WORDS.split())


@given(st.lists(words, max_size=12), st.dictionaries(st.sampled_from("ab"), st.text(max_size=3)))
def test_garbage_raises_nothing_else(parts: list[str], message: dict[str, str]) -> None:
    with contextlib.suppress(ExpressionError):
        Expression(" ".join(parts)).matches(message)
