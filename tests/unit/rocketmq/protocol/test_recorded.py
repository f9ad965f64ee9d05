"""What real clients, brokers and tools were seen to send, read and written again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.rocketmq.protocol import fastjson, frames
from penstock.rocketmq.protocol.command import Command, Language, Serialization
from penstock.rocketmq.protocol.messages import batch_body, message

FIXTURES = Path(__file__).parents[3] / "fixtures" / "rocketmq"


def recorded(name: str) -> list[Any]:
    return [json.loads(line) for line in (FIXTURES / name).read_text().splitlines()]


def java_bodies() -> list[tuple[str, str]]:
    lines = (FIXTURES / "java_bodies.txt").read_text().splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


HEADERS = recorded("headers.jsonl")
BODIES = recorded("bodies.jsonl")
MESSAGES = recorded("messages.jsonl")


def read(frame: bytes) -> Command:
    reader = frames.FrameReader()
    reader.feed(frame)
    command = reader.next_command()
    assert command is not None
    assert reader.unread == 0
    return command


def frame_of(header: dict[str, Any]) -> bytes:
    data = json.dumps(header).encode()
    return (4 + len(data)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data


def as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def named(header: dict[str, Any]) -> str:
    return f"{header['code']}-{header['language']}"


@pytest.mark.parametrize("header", HEADERS, ids=map(named, HEADERS))
def test_headers(header: dict[str, Any]) -> None:
    command = read(frame_of({**header, "opaque": 7, "serializeTypeCurrentRPC": "JSON"}))
    language = header["language"]
    assert command == Command(
        header["code"],
        7,
        {name: as_text(value) for name, value in (header["extFields"] or {}).items()} or None,
        flag=header["flag"],
        remark=header["remark"] or None,
        language=Language[language] if isinstance(language, str) else Language(language),
        version=header["version"],
    )
    for serialization in Serialization:
        command.serialization = serialization
        assert read(frames.encode(command)) == command


def test_every_kind_of_peer_was_recorded() -> None:
    languages = {header["language"] for header in HEADERS}
    assert languages == {"JAVA", "CPP", "GO", 3}
    assert {header["version"] for header in HEADERS} == {1, 63, 121, 317, 333, 409, 479}
    assert len({header["code"] for header in HEADERS if not header["flag"] & 1}) >= 40


@pytest.mark.parametrize("body", BODIES, ids=map(named, BODIES))
def test_bodies(body: dict[str, Any]) -> None:
    value = fastjson.loads(body["body"].encode())
    assert fastjson.loads(fastjson.dumps(value)) == value
    standard = fastjson.dumps(value, quoted_keys=True)
    if "{{" not in body["body"]:
        json.loads(standard)


@pytest.mark.parametrize(("name", "text"), java_bodies(), ids=[name for name, _ in java_bodies()])
def test_bodies_as_java_prints_them(name: str, text: str) -> None:
    value = fastjson.loads(text.encode())
    quoted = name == "TopicRouteData(std)"
    assert fastjson.dumps(value, quoted_keys=quoted).decode() == text


@pytest.mark.parametrize("sample", MESSAGES, ids=map(named, MESSAGES))
def test_messages(sample: dict[str, str]) -> None:
    data = bytes.fromhex(sample.get("records") or sample["batch"])
    if "batch" in sample:
        assert batch_body.encode(batch_body.decode(data)) == data
    else:
        found = list(message.decode_all(data))
        assert b"".join(message.encode(each) for each in found) == data
        assert all(len(each.offset_id) == 32 for each in found)
