from __future__ import annotations

import pytest

from penstock.admin.actions_api import read_strings

BOTH = ("topic", "channel")
MISFIT = "json: cannot unmarshal {} into Go struct field .{} of type string"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"topic":"t","channel":"c"}', ["t", "c"]),
        (b' \n{"TOPIC":"t"} what follows', ["t", ""]),
        (b'{"topic":"a","topic":"t","other":[{"topic":1}]}', ["t", ""]),
        (b'{"topic":null,"channel":"c"}', ["", "c"]),
        (b"null", ["", ""]),
        (b"{}", ["", ""]),
        (b'{"topic":"\xff"}', ["\ufffd", ""]),
        (b'{"topic":"\\ud800"}', ["?", ""]),
    ],
)
def test_what_is_read(body: bytes, found: list[str]) -> None:
    assert read_strings(body, BOTH) == found


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "EOF"),
        (b" \n", "EOF"),
        (b"{", "unexpected EOF"),
        (b'{"topic"', "unexpected EOF"),
        (b'{"topic":', "unexpected EOF"),
        (b'{"topic":"t', "unexpected EOF"),
        (b'{"topic":"t"', "unexpected EOF"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"'", "invalid character '\\'' looking for beginning of value"),
        (b"{topic:1}", "invalid character 't' looking for beginning of object key string"),
        (b'{"topic" 1}', "invalid character '1' after object key"),
        (b'{"topic":"t" x}', "invalid character 'x' after object key:value pair"),
        (b'{"topic":"a\nb"}', "invalid character '\\n' in string literal"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
        (b'{"topic":1}', MISFIT.format("number", "topic")),
        (b'{"channel":[]}', MISFIT.format("array", "channel")),
        (b'{"topic":{}}', MISFIT.format("object", "topic")),
        (b"[1]", 'json: cannot unmarshal array into Go value of type struct { Topic string '
         '"json:\\"topic\\""; Channel string "json:\\"channel\\"" }'),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)  # fmt: skip
def test_gos_words_for_what_is_wrong(body: bytes, text: str) -> None:
    with pytest.raises(ValueError) as raised:
        read_strings(body, BOTH)
    assert str(raised.value) == text
