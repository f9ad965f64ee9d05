from __future__ import annotations

import pytest

from penstock.core.quote import quote


@pytest.mark.parametrize(
    ("raw", "quoted"),
    [
        (b"plain", '"plain"'),
        (b"", '""'),
        (b"it's", '"it\'s"'),
        (b'a"b\\c', '"a\\"b\\\\c"'),
        (b"\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
        (b"\x00\x1f\x7f", '"\\x00\\x1f\\x7f"'),
        (b"\xff\xc3", '"\\xff\\xc3"'),
        ("é€🎉".encode(), '"é€🎉"'),
        ("\u00ad\u200b\u00a0".encode(), '"\\u00ad\\u200b\\u00a0"'),
        ("\x85".encode(), '"\\u0085"'),
        ("\U000e0001".encode(), '"\\U000e0001"'),
        ("\ufffd".encode(), '"\ufffd"'),
        (b"\xed\xa0\x80", '"\\xed\\xa0\\x80"'),
    ],
)
def test_quote(raw: bytes, quoted: str) -> None:
    assert quote(raw) == quoted


def test_text_is_taken_too() -> None:
    assert quote("a b") == '"a b"'
