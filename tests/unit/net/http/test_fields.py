"""Names of header fields."""

from __future__ import annotations

import pytest

from penstock.net.http.fields import is_name


@pytest.mark.parametrize("text", ["X-Name", "x", "a1!#$%&'*+.^_`|~-"])
def test_a_name(text: str) -> None:
    assert is_name(text)


@pytest.mark.parametrize("text", ["", "a b", "a:", "ä", "a\n", "(a)"])
def test_no_name(text: str) -> None:
    assert not is_name(text)
