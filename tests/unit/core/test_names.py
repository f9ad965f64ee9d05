from __future__ import annotations

import pytest

from penstock.core.names import is_ephemeral, is_valid_name

VALID = ["test", "valid_name", "test-with_period.", ".", "test#ephemeral", "a" * 64]
VALID += ["a" * 54 + "#ephemeral"]
INVALID = ["", "#ephemeral", "test:ephemeral", "test#temp", "invalid name with space", "a" * 65]
INVALID += ["a" * 55 + "#ephemeral", "a#ephemeral#ephemeral", "a\n", "é", "a\0"]


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    assert is_valid_name(name)
    assert is_valid_name(name.encode())


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    assert not is_valid_name(name)
    assert not is_valid_name(name.encode())


def test_ephemeral() -> None:
    assert is_ephemeral("a#ephemeral")
    assert not is_ephemeral("ephemeral")
