"""What a pattern reads is what the parser and the long way make of the same header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.broker.send.send_pattern import HEADER_MAX, PlainHead, SendPattern
from penstock.rocketmq.protocol import header_binary, header_json
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command, Language, Serialization

JSON, BINARY = Serialization.JSON, Serialization.BINARY
CLUSTER = "CLUSTER\x01DefaultCluster"
KEY = "UNIQ_KEY\x017F0001"
both = pytest.mark.parametrize("kind", [JSON, BINARY])


def header(
    kind: Serialization, text: str = KEY, *, code: int = RequestCode.SEND_MESSAGE_V2,
    opaque: int = 7, flag: int = 0, **fields: str,
) -> bytes:  # fmt: skip
    """A send as Java's client has it."""
    ext = {"a": "PG", "b": "Topic", "c": "TBW102", "d": "4", "e": "3", "f": "0",
           "g": "1700000000000", "h": "0", "i": text, "j": "0", "k": "false", "m": "false",
           **fields}  # fmt: skip
    codec = header_binary if kind else header_json
    return codec.encode(Command(code, opaque, ext, b"", flag, language=Language.JAVA, version=401))


def read(pattern: SendPattern, kind: int, data: bytes) -> PlainHead | None:
    """The header in the midst of other bytes."""
    return pattern.read(kind, b"before" + data + b"behind", 6, 6 + len(data))


def pattern_of(kind: Serialization, data: bytes) -> SendPattern:
    found = SendPattern.of(kind, data, CLUSTER)
    assert found is not None
    return found


@both
@given(
    opaque=st.integers(0, 999_999_999),
    queue=st.integers(0, 99_999),
    born_ms=st.integers(10**12, 10**13 - 1),
    key=st.text("0123456789ABCDEF", max_size=32),
    tag=st.text("abc .%+*?[(){}^$|-", max_size=8),
)
def test_what_differs_is_read(
    kind: Serialization, opaque: int, queue: int, born_ms: int, key: str, tag: str
) -> None:
    pattern = pattern_of(kind, header(kind, f"{KEY}\x02WAIT\x01true\x02TAGS\x01a"))
    text = f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TAGS\x01{tag}"
    other = header(kind, text, opaque=opaque, e=str(queue), g=str(born_ms))
    stored = f"UNIQ_KEY\x01{key}\x02TAGS\x01{tag}\x02{CLUSTER}"
    assert read(pattern, kind, other) == PlainHead(opaque, queue, born_ms, stored.encode())


@both
@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (KEY, f"{KEY}\x02"),
        (f"{KEY}\x02", f"{KEY}\x02"),
        (f"{KEY}\x02WAIT\x01true", f"{KEY}\x02"),
        (f"{KEY}\x02WAIT\x01false\x02", f"{KEY}\x02"),
        (f"WAIT\x01true\x02{KEY}", f"{KEY}\x02"),
        (f"WAIT\x01true\x02{KEY}\x02", f"{KEY}\x02"),
        (f"AWAIT\x01true\x02WAIT\x01true\x02{KEY}", f"AWAIT\x01true\x02{KEY}\x02"),
    ],
)
def test_properties_are_stored_as_they_are_with_the_cluster(
    kind: Serialization, text: str, stored: str
) -> None:
    head = read(pattern_of(kind, header(kind, text)), kind, header(kind, text))
    assert head is not None
    assert head.properties.decode() == stored + CLUSTER


@both
def test_the_long_names_of_fields_have_patterns_too(kind: Serialization) -> None:
    codec = header_binary if kind else header_json
    ext = {"topic": "Topic", "producerGroup": "PG", "properties": KEY, "queueId": "12",
           "flag": "0", "bornTimestamp": "1700000000001"}  # fmt: skip
    data = codec.encode(Command(RequestCode.SEND_MESSAGE, 9, ext))
    stored = f"{KEY}\x02{CLUSTER}".encode()
    assert read(pattern_of(kind, data), kind, data) == PlainHead(9, 12, 1700000000001, stored)


@both
def test_a_header_that_differs_elsewhere_is_not_read(kind: Serialization) -> None:
    pattern = pattern_of(kind, header(kind, f"{KEY}\x02WAIT\x01true"))
    wait = f"{KEY}\x02WAIT\x01true"
    others = [
        header(kind, wait, b="Other"), header(kind, wait, flag=ONE_WAY), header(kind, wait, f="1"),
        header(kind, wait, e="-1"), header(kind, wait, g="x"), header(kind, wait, l="16"),
        header(kind, f"{wait}\x02DELAY\x013"), header(kind, f"{KEY}\x02WAIT\x01false"),
        header(kind, f"{KEY}\xe4\x02WAIT\x01true"), header(kind, "TAGS\x01a\x02WAIT\x01true"),
        header(kind, wait)[:-1], header(kind, wait) + b" ",
    ]  # fmt: skip
    assert [read(pattern, kind, other) for other in others] == [None] * len(others)
    assert read(pattern, 1 - kind, header(kind, wait)) is None


@both
@pytest.mark.parametrize(
    "data",
    [
        {"m": "true"}, {"e": "-1"}, {"e": ""}, {"e": "x"}, {"g": "+5"}, {"f": "4"},
        {"g": "12345678901234567890"}, {"flag": ONE_WAY}, {"code": RequestCode.SEND_BATCH_MESSAGE},
        {"a": "x" * HEADER_MAX}, {"text": ""}, {"text": "TAGS"}, {"text": "\x01value"},
        {"text": f"{KEY}\x02{KEY}"}, {"text": "TAGS\x01\xe4"}, {"text": 'TAGS\x01"'},
        {"text": "WAIT\x01true"}, {"text": f"{KEY}\x02WAIT\x01"}, {"text": f"{KEY}\x02DELAY\x013"},
        {"text": f"{KEY}\x02TRAN_MSG\x01true"}, {"text": f"{KEY}\x02TIMER_DELAY_MS\x015"},
        {"text": f"{KEY}\x02CLUSTER\x01x"},
    ],
)  # fmt: skip
def test_what_is_not_plain_has_no_pattern(kind: Serialization, data: dict[str, str]) -> None:
    values = {"text": KEY, **data}
    assert SendPattern.of(kind, header(kind, **values), CLUSTER) is None  # type: ignore[arg-type]


@both
def test_what_is_no_header_of_ours_has_no_pattern(kind: Serialization) -> None:
    data = header(kind)
    spaced = data.replace(b'"opaque":7', b'"opaque": 7') if kind == JSON else data + b"\0"
    assert SendPattern.of(kind, spaced, CLUSTER) is None
    assert SendPattern.of(kind, b"", CLUSTER) is None


def test_lengths_that_lie_are_left_to_the_parser() -> None:
    data = header(BINARY)
    pattern = pattern_of(BINARY, data)
    size_at = header_binary.HEAD_BYTES - 1
    text_at = data.index(KEY.encode()) - 1
    for place in (size_at, text_at):
        lying = bytearray(data)
        lying[place] += 1
        assert read(pattern, BINARY, bytes(lying)) is None


def test_only_sends_may_have_patterns() -> None:
    for kind in (JSON, BINARY):
        for code, expected in ((310, True), (10, True), (320, False), (11, False), (3101, False)):
            data = header(kind, code=code)
            assert SendPattern.is_send(kind, b"x" + data, 1) is expected
    assert not SendPattern.is_send(2, header(JSON), 0)
