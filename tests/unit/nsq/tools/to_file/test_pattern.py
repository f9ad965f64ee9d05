"""--topic-pattern."""

from __future__ import annotations

import os

import pytest

from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.to_file.pattern import check_pattern, matcher


@pytest.mark.parametrize(
    ("pattern", "topic", "found"),
    [
        ("", "any", True),
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^tf$", "tfn", False),
        (r"\d+", "a1", True),
        ("(?i)ABC", "abc", True),
    ],
)
def test_it_is_searched_anywhere(pattern: str, topic: str, found: bool) -> None:
    check_pattern(pattern)
    assert matcher(pattern)(topic) is found


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)"])
def test_what_re2_does_not_know_is_refused(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ToolError, match="invalid --topic-pattern"):
        check_pattern(pattern)
    assert capfd.readouterr() == ("", "")


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    with pytest.raises(ToolError, match=r"invalid --topic-pattern .*: invalid UTF-8$"):
        check_pattern(os.fsdecode(b"x\xe9"))
