from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.nsqlookupd.protocol import (
    MAGIC_V1,
    OK,
    PING,
    Command,
    CommandReader,
    Identify,
    LookupProtocolError,
    PeerInfo,
    Ping,
    Register,
    ReplyReader,
    Unregister,
    error_reply,
    identify,
    register,
    reply,
    unregister,
)

PEER = {
    "hostname": "h1",
    "broadcast_address": "127.0.0.1",
    "tcp_port": 4150,
    "http_port": 4151,
    "version": "1.3.0",
}
INFO = PeerInfo("h1", "127.0.0.1", 4150, 4151, "1.3.0")
IDENTIFY = identify(json.dumps(PEER).encode())


def commands(reader: CommandReader) -> Iterator[Command]:
    while (command := reader.next_command()) is not None:
        yield command


def read(data: bytes, **limits: int) -> list[Command]:
    reader = CommandReader(**limits)
    reader.receive_data(MAGIC_V1 + data)
    return list(commands(reader))


def refused(data: bytes, *, magic: bytes = MAGIC_V1, eof: bool = False, **limits: int) -> str:
    reader = CommandReader(**limits)
    reader.receive_data(magic + data)
    if eof:
        reader.receive_eof()
    with pytest.raises(LookupProtocolError) as caught:
        list(commands(reader))
    return str(caught.value)


def test_a_conversation() -> None:
    found = read(PING + IDENTIFY + register("t") + register("t", "c") + unregister("t", "c") + PING)
    assert found == [
        Ping(),
        Identify(INFO),
        Register("t", ""),
        Register("t", "c"),
        Unregister("t", "c"),
        Ping(),
    ]


@given(st.integers(1, 40))
def test_any_cut_of_the_bytes_will_do(size: int) -> None:
    data = MAGIC_V1 + PING + IDENTIFY + register("t", "c") + PING
    reader = CommandReader()
    found: list[Command] = []
    for start in range(0, len(data), size):
        reader.receive_data(data[start : start + size])
        found += commands(reader)
    assert found == [Ping(), Identify(INFO), Register("t", "c"), Ping()]


@pytest.mark.parametrize("line", [b" \t PING \r\n", b"PING x\n", b"PING\r\n"])
def test_lines_are_trimmed_and_surplus_parameters_ignored(line: bytes) -> None:
    assert read(line) == [Ping()]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (b"REGISTER t \n", Register("t", "")),
        (b"REGISTER t  c\n", Register("t", "")),
        (b"REGISTER t c x\n", Register("t", "c")),
        (b"UNREGISTER t#ephemeral c#ephemeral\n", Unregister("t#ephemeral", "c#ephemeral")),
    ],
)
def test_parameters(line: bytes, command: Command) -> None:
    assert read(IDENTIFY + line)[1:] == [command]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\n", "E_INVALID invalid command "),
        (b"ping\n", "E_INVALID invalid command ping"),
        (b"FOO bar\n", "E_INVALID invalid command FOO"),
        (b"\xff\n", "E_INVALID invalid command \udcff"),
        (b"REGISTER t\n", "E_INVALID client must IDENTIFY"),
        (b"UNREGISTER\n", "E_INVALID client must IDENTIFY"),
        (IDENTIFY * 2, "E_INVALID cannot IDENTIFY again"),
        (IDENTIFY + b"REGISTER\n", "E_INVALID REGISTER insufficient number of params"),
        (IDENTIFY + b"REGISTER  t\n", "E_BAD_TOPIC REGISTER topic name '' is not valid"),
        (IDENTIFY + b"REGISTER a'b\n", "E_BAD_TOPIC REGISTER topic name 'a'b' is not valid"),
        (
            IDENTIFY + b"UNREGISTER t c!\n",
            "E_BAD_CHANNEL UNREGISTER channel name 'c!' is not valid",
        ),
        (b"IDENTIFY\n\xff\xff\xff\xff{}", "E_BAD_BODY IDENTIFY invalid body size -1"),
        (identify(b""), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify(b"[]"), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify(b"null"), "E_BAD_BODY IDENTIFY missing fields"),
    ],
)
def test_refused(data: bytes, text: str) -> None:
    assert refused(data) == text


@pytest.mark.parametrize("field", ["broadcast_address", "tcp_port", "http_port", "version"])
def test_a_field_that_matters_is_missing(field: str) -> None:
    without = {name: value for name, value in PEER.items() if name != field}
    assert refused(identify(json.dumps(without).encode())) == "E_BAD_BODY IDENTIFY missing fields"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"IDENTIFY\n", "E_BAD_BODY IDENTIFY failed to read body size"),
        (b"IDENTIFY\n\0\0", "E_BAD_BODY IDENTIFY failed to read body size"),
        (b"IDENTIFY\n\0\0\0\x14{", "E_BAD_BODY IDENTIFY failed to read body"),
    ],
)
def test_the_end_inside_a_body(data: bytes, text: str) -> None:
    assert refused(data, eof=True) == text
    assert read(data) == []


def test_the_end_elsewhere_is_silent() -> None:
    reader = CommandReader()
    reader.receive_data(b"  V1PIN")
    reader.receive_eof()
    assert list(commands(reader)) == []


def test_bad_magic() -> None:
    assert refused(PING, magic=b"  V2") == "E_BAD_PROTOCOL"


def test_limits() -> None:
    assert refused(b"A" * 11, max_line=10) == "E_INVALID command line too long"
    assert refused(b"A" * 11 + b"\n", max_line=10) == "E_INVALID command line too long"
    assert refused(b"A" * 10 + b"\n", max_line=10) == "E_INVALID invalid command AAAAAAAAAA"
    assert refused(identify(b"x" * 11), max_body=10) == "E_BAD_BODY IDENTIFY invalid body size 11"


def test_encoding() -> None:
    assert register("t") == b"REGISTER t\n"
    assert unregister("t", "c") == b"UNREGISTER t c\n"
    assert reply(b"OK") == OK
    assert error_reply(LookupProtocolError("E \udcff")) == b"\0\0\0\3E \xff"


@given(st.lists(st.binary(max_size=20)), st.integers(1, 10))
def test_replies(answers: list[bytes], size: int) -> None:
    data = b"".join(map(reply, answers))
    reader = ReplyReader()
    found = []
    for start in range(0, len(data), size):
        reader.receive_data(data[start : start + size])
        while (answer := reader.next_reply()) is not None:
            found.append(answer)
    assert found == answers


@pytest.mark.parametrize("size", [-1, 1 << 30])
def test_replies_of_a_mad_size(size: int) -> None:
    reader = ReplyReader()
    reader.receive_data(struct.pack(">i", size))
    with pytest.raises(LookupProtocolError):
        reader.next_reply()
