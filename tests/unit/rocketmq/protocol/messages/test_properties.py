"""Properties: both endings, what is dropped, what wins."""

from __future__ import annotations

from penstock.rocketmq.protocol.messages import properties


def test_parsing() -> None:
    assert properties.parse("KEYS\x01k\x02TAGS\x01a\x02") == {"KEYS": "k", "TAGS": "a"}
    assert properties.parse("KEYS\x01k\x02TAGS\x01a") == {"KEYS": "k", "TAGS": "a"}
    assert properties.parse("") == {}
    assert properties.parse("\x01v\x02n\x01\x02junk\x02a\x01b\x02a\x01c") == {"a": "c"}
    assert properties.parse("a\x01b\x01c\x02") == {"a": "b\x01c"}


def test_joining() -> None:
    assert properties.join({"KEYS": "k", "empty": "", "TAGS": "a"}) == "KEYS\x01k\x02TAGS\x01a\x02"


def test_one_value() -> None:
    text = "XTAGS\x01no\x02TAGS\x01yes\x02KEYS\x01k"
    assert properties.value_of(text, "TAGS") == "yes"
    assert properties.value_of(text, "KEYS") == "k"
    assert properties.value_of(text, "XTAGS") == "no"
    assert properties.value_of(text, "GS") is None
    assert properties.value_of("TAGS\x01\x02", "TAGS") is None


def test_less_one() -> None:
    text = "XTAGS\x01no\x02TAGS\x01yes\x02KEYS\x01k"
    assert properties.without(text, "TAGS") == "XTAGS\x01no\x02KEYS\x01k"
    assert properties.without(text, "XTAGS") == "TAGS\x01yes\x02KEYS\x01k"
    assert properties.without(text, "KEYS") == "XTAGS\x01no\x02TAGS\x01yes\x02"
    assert properties.without(text, "GS") == text
    assert properties.without("WAIT\x01true\x02", "WAIT") == ""


def test_whole_numbers() -> None:
    assert properties.number("0") == 0
    assert properties.number("9" * 18) == 10**18 - 1
    for text in (None, "", "-1", "+1", "1.0", " 1", "\u00b2", "\u0661", "9" * 19, "9" * 10_000):
        assert properties.number(text) is None
