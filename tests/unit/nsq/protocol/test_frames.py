"""Commands and frames byte for byte, and runs of messages read however they are cut."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.protocol import encode, frames
from penstock.nsq.protocol.encode import finish
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import Error, FrameReader, MessageBlock, Response
from tools.harness.naive_nsq import cut, naive_frames

ID = b"0123456789abcdef"


def test_golden_bytes() -> None:
    assert frames.OK_FRAME.hex() == "0000000600000000" + "4f4b"
    assert frames.HEARTBEAT_FRAME == b"\0\0\0\x0f\0\0\0\0_heartbeat_"
    assert frames.CLOSE_WAIT_FRAME.hex() == "0000000e00000000434c4f53455f57414954"
    assert frames.error("E_INVALID \udcffä") == b"\0\0\0\x11\0\0\0\1E_INVALID \xff\xc3\xa4"
    assert frames.message(1, 1, b"0" * 16, b"x").hex() == (
        "0000001f00000002" + "0000000000000001" + "0001" + "30" * 16 + "78"
    )
    assert [frames.message(1, 1, b"0" * 16, b"x")] == naive_frames([b"x"], 0, 1)
    wrapped, plain = (frames.message(1, each, b"0" * 16, b"x") for each in (0x11234, 0x1234))
    assert wrapped == plain


def flatten(events: list[frames.Frame]) -> list[object]:
    flat: list[object] = []
    for event in events:
        flat += list(event) if isinstance(event, MessageBlock) else [event]
    return flat


sizes = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=6)
others = st.lists(st.sampled_from([Response(b"OK"), Response(b"_heartbeat_"), Error("E_X y")]))


def stream_of(runs: list[tuple[int, int]], between: list[Response | Error]) -> bytes:
    data = b""
    number = 0
    for index, (size, count) in enumerate(runs):
        bodies = [bytes([number % 251]) * size for _ in range(count)]
        data += b"".join(naive_frames(bodies, number, 5))
        number += count
        for other in between[index : index + 1]:
            if isinstance(other, Error):
                data += frames.error(other.text)
            else:
                data += frames.response(other.data)
    return data


def naive_read(data: bytes) -> list[object]:
    found: list[object] = []
    while data:
        size, kind = struct.unpack_from(">II", data)
        body, data = data[8 : size + 4], data[size + 4 :]
        if kind == 2:
            stamp, attempts, identifier = struct.unpack_from(">qH16s", body)
            found.append((stamp, attempts, identifier, body[26:]))
        else:
            found.append(Response(body) if kind == 0 else Error(body.decode()))
    return found


@given(sizes, others, st.lists(st.integers(0, 9000), max_size=8) | st.just(range(9000)))
def test_any_cut_gives_the_same_frames(
    runs: list[tuple[int, int]], between: list[Response | Error], places: Iterable[int]
) -> None:
    data = stream_of(runs, between)
    reader = FrameReader()
    found: list[object] = []
    for piece in cut(data, places):
        reader.receive_data(piece)
        found += flatten(reader.events())
    assert found == naive_read(data)
    assert reader.unread == 0


@given(sizes, st.integers(0, 100), st.integers(0, 100))
def test_block(runs: list[tuple[int, int]], first: int, last: int) -> None:
    data = stream_of(runs, [])
    reader = FrameReader()
    reader.receive_data(data)
    blocks = [block for block in reader.events() if isinstance(block, MessageBlock)]
    assert b"".join(block.frames() for block in blocks) == data
    for block in blocks:
        messages = list(block)
        assert len(block) == block.count == len(messages)
        assert [block[index] for index in range(block.count)] == messages
        assert list(block.fields()) == [tuple(message) for message in messages]
        assert block.bodies() == [message.body for message in messages]
        if first < last <= block.count:
            part = block.part(first, last)
            assert list(part) == messages[first:last]
            assert part.stride == block.stride
        assert block.ids() == [message.id for message in messages]
        expected = b"".join(finish(message.id) for message in messages[first:last])
        assert block.finish_commands(first, last) == expected
        assert block.finish_commands() == b"".join(finish(message.id) for message in messages)
        lengths = {len(message.body) + 34 for message in messages}
        assert block.stride == (0 if len(lengths) > 1 else block.stride)
        assert not block.stride or {block.stride} == lengths


def test_many_equal_frames_are_one_block() -> None:
    reader = FrameReader()
    reader.receive_data(b"".join(naive_frames([b"x" * 200] * 2500, 0, 1)) + frames.OK_FRAME)
    block, answer = reader.events()
    assert isinstance(block, MessageBlock)
    assert (block.count, block.stride) == (2500, 234)
    assert answer == Response(b"OK")


@given(st.lists(st.tuples(st.integers(0, 65535), st.sampled_from([b"x", b"yy"])), min_size=1))
def test_most_attempts(messages: list[tuple[int, bytes]]) -> None:
    for bodies in (messages, [(attempts, b"x") for attempts, _ in messages] * 20):
        reader = FrameReader()
        for attempts, body in bodies:
            reader.receive_data(frames.message(1, attempts, ID, body))
        (block,) = reader.events()
        assert isinstance(block, MessageBlock)
        assert block.most_attempts() == max(attempts for attempts, _ in messages)


@pytest.mark.parametrize(
    "head",
    [*(struct.pack(">II", *each) for each in ((6, 3), (3, 0), (29, 2), (101, 0))), b"HTTP/1.1"],
)
def test_what_is_no_frame(head: bytes) -> None:
    reader = FrameReader(max_frame_size=100)
    reader.receive_data(frames.OK_FRAME + head)
    with pytest.raises(ProtocolError, match="E_BAD_FRAME"):
        reader.events()


@given(st.binary(max_size=200))
def test_garbage_is_a_protocol_error_or_nothing(data: bytes) -> None:
    reader = FrameReader(max_frame_size=100)
    reader.receive_data(data)
    try:
        reader.events()
    except ProtocolError:
        return
    assert reader.unread <= 104


def test_properties() -> None:
    assert Response(b"_heartbeat_").is_heartbeat
    assert not Response(b"OK").is_heartbeat
    assert Error("E_FIN_FAILED FIN x failed").code == "E_FIN_FAILED"
    assert not Error("E_FIN_FAILED FIN x failed").is_fatal
    assert Error("E_BAD_PROTOCOL").is_fatal


# --- the commands of a client


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (encode.MAGIC_V2 + encode.NOP, b"  V2NOP\n"),
        (encode.identify(b"{}"), b"IDENTIFY\n\0\0\0\2{}"),
        (encode.auth(b"s"), b"AUTH\n\0\0\0\1s"),
        (encode.publish("t", b"hi"), b"PUB t\n\0\0\0\2hi"),
        (encode.multi_publish("t", [b"a", b"bc"]),
         b"MPUB t\n\0\0\0\x0f\0\0\0\2\0\0\0\1a\0\0\0\2bc"),
        (encode.deferred_publish("t", 1000, b"x"), b"DPUB t 1000\n\0\0\0\1x"),
        (encode.subscribe("t", "c#ephemeral"), b"SUB t c#ephemeral\n"),
        (encode.ready(2500), b"RDY 2500\n"),
        (encode.finish(ID), b"FIN 0123456789abcdef\n"),
        (encode.finish_all([ID, b"2" * 16]), b"FIN 0123456789abcdef\nFIN %b\n" % (b"2" * 16)),
        (encode.requeue(ID, 90_000), b"REQ 0123456789abcdef 90000\n"),
        (encode.touch(ID), b"TOUCH 0123456789abcdef\n"),
        (encode.CLS, b"CLS\n"),
    ],
)  # fmt: skip
def test_commands_byte_for_byte(command: bytes, expected: bytes) -> None:
    assert command == expected
