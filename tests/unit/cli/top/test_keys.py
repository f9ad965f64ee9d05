"""Bytes of a terminal, as keys."""

from __future__ import annotations

import pytest

from penstock.cli.top.keys import Keys


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1bOB\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["page up", "page down", "home", "end"]),
        (b"\r\n\x7f\x08", ["enter", "enter", "backspace", "backspace"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[1;5A", ["up"]),  # with Ctrl
        (b"\x1b[15~", []),
        (b"\x01\x02a", ["a"]),
        ("é/".encode(), ["é", "/"]),
        (b"\xff", ["\ufffd"]),
    ],
)
def test_keys(data: bytes, keys: list[str]) -> None:
    assert Keys().feed(data) == keys


def test_a_sequence_in_pieces() -> None:
    keys = Keys()
    assert keys.feed(b"s\x1b[") == ["s"]
    assert keys.feed(b"5") == []
    assert keys.feed(b"~\xc3") == ["page up"]
    assert keys.feed(b"\xa9") == ["é"]
