"""Names and numbers of command lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.protocol import params
from penstock.nsq.protocol.params import parse_name, parse_number, shown, signed


def test_names_are_remembered() -> None:
    assert parse_name(b"orders#ephemeral") == "orders#ephemeral"
    assert parse_name(b"orders#ephemeral") is parse_name(b"orders#ephemeral")
    assert parse_name(b"#ephemeral") is None
    assert parse_name(b"t\n") is None


def test_memory_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(params, "_MAX_REMEMBERED", 3)
    monkeypatch.setattr(params, "_remembered", {})
    for number in range(10):
        assert parse_name(b"t%d" % number) == f"t{number}"
    assert len(params._remembered) <= 3


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (b"", 0),
        (b"0", 0),
        (b"007", 7),
        (b"18446744073709551615", 2**64 - 1),
        (b"18446744073709551616", 0),
        (b"-1", None),
        (b"+1", None),
        (b" 1", None),
        (b"1_0", None),
        (b"1.0", None),
        ("٣".encode(), None),
    ],
)
def test_numbers(raw: bytes, number: int | None) -> None:
    assert parse_number(raw) == number


@given(st.integers(0, 10**80))
def test_numbers_wrap(number: int) -> None:
    assert parse_number(b"%d" % number) == number % 2**64


def test_a_number_of_a_whole_line() -> None:
    assert parse_number(b"1" * 16000) == int("1" * 64) % 2**64


def test_signed() -> None:
    assert [signed(n) for n in (0, 2**63 - 1, 2**63, 2**64 - 1, 2**64)] == [
        0,
        2**63 - 1,
        -(2**63),
        -1,
        0,
    ]


def test_shown_keeps_every_byte() -> None:
    raw = bytes(range(256))
    assert shown(raw).encode("utf-8", "surrogateescape") == raw
