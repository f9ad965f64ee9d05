"""Binary headers beyond what test_frames covers."""

from __future__ import annotations

import pytest

from penstock.rocketmq.protocol import header_binary
from penstock.rocketmq.protocol.command import Command, Language, Serialization
from penstock.rocketmq.protocol.errors import FrameError


def test_empty_and_missing_read_alike() -> None:
    command = Command(0, 1, {"a": ""}, remark="", serialization=Serialization.BINARY)
    read = header_binary.decode(header_binary.encode(command))
    assert read.remark is None
    assert read.optional("a") is None
    assert header_binary.decode(header_binary.encode(Command(0, ext={}))).ext is None


def test_an_unknown_language_is_other() -> None:
    header = bytearray(header_binary.encode(Command(0)))
    header[2] = 77
    assert header_binary.decode(bytes(header)).language is Language.OTHER


def test_every_cut_is_noticed() -> None:
    header = header_binary.encode(Command(5, 6, {"name": "value"}, remark="remark"))
    for end in range(len(header)):
        with pytest.raises(FrameError):
            header_binary.decode(header[:end])


def test_long_names_are_refused() -> None:
    with pytest.raises(ValueError, match="70000"):
        header_binary.encode(Command(0, ext={"n" * 70_000: "v"}))
