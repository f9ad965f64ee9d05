"""JSON headers: what clients were seen to send, and what the strictest of them reads."""

from __future__ import annotations

import json

import pytest

from penstock.rocketmq.protocol import header_json
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.errors import FrameError


def test_fields_are_coerced_to_texts() -> None:
    command = header_json.decode(
        b'{"code":310,"extFields":{"d":4,"k":false,"e":true,"f":null,"g":9007199254740993,'
        b'"x":1.5,"b":"T"},"language":"JAVA","opaque":3}'
    )
    assert command.ext == {
        "d": "4", "k": "false", "e": "true", "g": "9007199254740993", "x": "1.5", "b": "T"
    }  # fmt: skip
    assert command.version == 0


@pytest.mark.parametrize(
    ("language", "read"),
    [
        ("3", Language.PYTHON),
        ('"GO"', Language.GO),
        ('"NOPE"', Language.OTHER),
        ("99", Language.OTHER),
        ("null", Language.JAVA),
    ],
)
def test_languages(language: str, read: Language) -> None:
    header = f'{{"code":1,"language":{language}}}'.encode()
    assert header_json.decode(header).language is read


@pytest.mark.parametrize("fields", ["null", "{}"])
def test_no_fields(fields: str) -> None:
    header = f'{{"code":34,"extFields":{fields},"remark":""}}'.encode()
    command = header_json.decode(header)
    assert command.ext is None
    assert command.remark is None


def test_what_only_fastjson_reads() -> None:
    command = header_json.decode(b"{'code':\"11\",opaque:7,extFields:{topic:'T'},extra:{0:1}}")
    assert (command.code, command.opaque, command.ext) == (11, 7, {"topic": "T"})
    assert header_json.decode(b"{code:1,extFields:{0:'a'}}").ext == {"0": "a"}


def test_an_error_quotes_no_more_than_a_glimpse() -> None:
    with pytest.raises(FrameError) as caught:
        header_json.decode(b'{"code":"' + b"x" * 100_000 + b'"}')
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"{}", b'{"code":4294967296}', b'{"code":"x"}', b'{"code":"+-5"}', b"[" * 100_000,
     b'{"code":1,"x":' + b"[" * 3000],
)  # fmt: skip
def test_headers_without_sense(header: bytes) -> None:
    with pytest.raises(FrameError):
        header_json.decode(header)


def test_a_text_that_is_no_utf8_is_read_as_java_does() -> None:
    key = "订单".encode("gbk")  # as C++ clients send it that were compiled so
    sent = b'{"code":310,"extFields":{"b":"T","i":"KEYS\\u0001' + key + b'\\u0002"},"opaque":7}'
    command = header_json.decode(sent)
    assert (command.code, command.opaque) == (310, 7)
    wanted = key.decode("utf-8", "replace")
    assert command.ext == {"b": "T", "i": f"KEYS\x01{wanted}\x02"}
    assert header_json.decode(b'{"code":1,"remark":"\xff"}').remark == "\ufffd"


def test_what_is_written_is_compact_and_all_texts() -> None:
    text = header_json.encode(Command(0, 5, {"queueId": "2", "p": "a\x01b\x02"}, flag=1)).decode()
    assert " " not in text
    values = json.loads(text)
    assert values["extFields"] == {"queueId": "2", "p": "a\x01b\x02"}
    assert "remark" not in values
    assert list(values) == sorted(values)
    assert "extFields" not in json.loads(header_json.encode(Command(0)))
    assert json.loads(header_json.encode(Command(0, ext={})))["extFields"] == {}
