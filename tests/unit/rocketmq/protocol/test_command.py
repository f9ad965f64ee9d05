"""Reading a command's fields as the Java broker does."""

from __future__ import annotations

import pytest

from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.errors import BodyError


def test_answers_echo_opaque_and_serialisation() -> None:
    request = Command(11, 42, flag=2, serialization=Serialization.BINARY)
    answer = request.answer(19, "none", ext={"minOffset": "0"})
    assert (answer.opaque, answer.flag, answer.code) == (42, 1, 19)
    assert answer.serialization is Serialization.BINARY
    assert answer.is_response
    assert not answer.is_one_way
    assert request.is_one_way


def test_fields() -> None:
    command = Command(
        11, ext={"topic": "T", "queueId": "-1", "offset": "9223372036854775807", "sub": ""}
    )
    assert command.text("topic") == "T"
    assert command.optional("sub") is None
    assert command.optional("nothing") is None
    assert command.int32("queueId") == -1
    assert command.int32("nothing", 7) == 7
    assert command.int64("offset") == (1 << 63) - 1
    assert Command(1).optional("x") is None


@pytest.mark.parametrize(
    ("value", "read"), [("true", True), ("TRUE", True), ("1", False), ("", False), ("yes", False)]
)
def test_booleans(value: str, read: bool) -> None:
    assert Command(1, ext={"b": value}).boolean("b") is read
    assert Command(1).boolean("b") is False


@pytest.mark.parametrize("value", ["", "x", "1.5", "2147483648", "٣", " 1", "1_0", "+", "1e3"])
def test_bad_numbers(value: str) -> None:
    with pytest.raises(BodyError, match="queueId"):
        Command(1, ext={"queueId": value}).int32("queueId")


def test_missing_fields_are_named() -> None:
    for read in (Command.text, Command.int32, Command.int64):
        with pytest.raises(BodyError, match="the field topic is missing"):
            read(Command(1), "topic")


def test_a_code_that_nobody_serves_is_named() -> None:
    answer = Command(9999, 7).unsupported()
    assert (answer.code, answer.opaque, answer.is_response) == (3, 7, True)
    assert answer.remark == " request type 9999 not supported"
