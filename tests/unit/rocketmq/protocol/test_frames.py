"""Frames: golden bytes of the real encoder, streams cut anywhere, answers made of templates."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import Command, Language, Serialization
from penstock.rocketmq.protocol.errors import FrameError

GOLDEN = Command(
    310, 7, {"a": "PG"}, b"hi", remark="r", language=Language.JAVA, version=479
)  # fmt: skip
BINARY = (
    "00000025 0100001F 0136 00 01DF 00000007 00000000 00000001 72 00000009 0001 61 00000002 5047"
    "6869"
)
BARE = "00000019 01000015 0136 00 01DF 00000007 00000000 00000000 00000000"
JSON = (
    '{"code":310,"extFields":{"a":"PG"},"flag":0,"language":"JAVA","opaque":7,"remark":"r",'
    '"serializeTypeCurrentRPC":"JSON","version":479}'
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
commands = st.builds(
    Command,
    code=st.integers(0, 32767),
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    ext=st.none() | st.dictionaries(texts.filter(bool), texts.filter(bool), min_size=1, max_size=3),
    body=st.binary(max_size=40),
    flag=st.integers(0, 3),
    remark=st.none() | texts.filter(bool),
    language=st.sampled_from(Language),
    version=st.integers(0, 32767),
    serialization=st.sampled_from(Serialization),
)


def read_all(reader: frames.FrameReader) -> list[Command]:
    found = []
    while (command := reader.next_command()) is not None:
        found.append(command)
    return found


def test_golden_bytes() -> None:
    assert frames.encode(GOLDEN) == bytes.fromhex("0000008B00000085") + JSON.encode() + b"hi"
    GOLDEN.serialization = Serialization.BINARY
    assert frames.encode(GOLDEN) == bytes.fromhex(BINARY)
    GOLDEN.serialization = Serialization.JSON
    bare = Command(310, 7, language=Language.JAVA, version=479)
    bare.serialization = Serialization.BINARY
    assert frames.encode(bare) == bytes.fromhex(BARE)


@given(st.lists(commands, min_size=1, max_size=4), st.data())
def test_streams_cut_anywhere(sent: list[Command], data: st.DataObject) -> None:
    stream = b"".join(frames.encode(command) for command in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader = frames.FrameReader()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reader.feed(stream[start:end])
        found += read_all(reader)
    assert found == sent
    assert reader.unread == 0


@pytest.mark.parametrize(("nbytes", "step"), [(200, 1), (3_000_000, 50_000)])
def test_a_body_in_many_pieces(nbytes: int, step: int) -> None:
    sent = [Command(10, 1, {"topic": "t"}, bytes(nbytes)), Command(11, 2)]
    stream = b"".join(map(frames.encode, sent))
    reader = frames.FrameReader()
    found = []
    for start in range(0, len(stream), step):
        reader.feed(stream[start : start + step])
        found += read_all(reader)
    assert found == sent


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        ("00000003", "a frame of 3 bytes"),
        ("01000001", "16777217"),
        ("ffffffff", "a frame of -1 bytes"),
        ("00000005 00000002 00", "a header of 2 bytes in a frame of 5"),
        ("00000006 00000002 7b7d", "a JSON header whose code is not a 32-bit number"),
        ("00000006 00000002 5b5d", "not an object"),
        ("00000005 00000001 78", "not JSON"),
        ("00000005 02000001 78", "unknown serialisation 2"),
        ("00000005 01000001 78", "cut short"),
        (BINARY.replace("00000001 72", "7fffffff 72"), "a length of 2147483647"),
        (BINARY.replace("00000002 5047", "00000003 5047"), "a length of 3"),
        (BINARY.replace("0001 61", "00ff 61"), "cut short"),
    ],
)
def test_streams_that_make_no_sense(stream: str, says: str) -> None:
    reader = frames.FrameReader()
    reader.feed(bytes.fromhex(stream))
    with pytest.raises(FrameError, match=says):
        reader.next_command()


@given(st.binary(max_size=60))
def test_garbage_raises_nothing_else(data: bytes) -> None:
    reader = frames.FrameReader()
    reader.feed(data)
    with contextlib.suppress(FrameError):
        read_all(reader)


def test_what_no_frame_can_say() -> None:
    pop = Command(200050, 1, serialization=Serialization.BINARY)
    with pytest.raises(ValueError, match="200050"):
        frames.encode(pop)
    assert pop.answer(0).serialization is Serialization.BINARY
    with pytest.raises(ValueError, match="a header of 167"):
        frames.encode(Command(1, 1, remark="x" * (1 << 24)))


def test_several_commands_at_once() -> None:
    reader = frames.FrameReader()
    data = b"".join(frames.encode(Command(number)) for number in range(5))
    reader.feed(data[:-1])
    assert [command.code for command in reader.next_commands(3)] == [0, 1, 2]
    assert [command.code for command in reader.next_commands(3)] == [3]
    assert reader.next_commands(3) == []
    reader.feed(data[-1:])
    assert [command.code for command in reader.next_commands(3)] == [4]


def test_what_stands_before_nonsense_is_given_first() -> None:
    reader = frames.FrameReader()
    reader.feed(frames.encode(Command(7)) + bytes(8))
    assert [command.code for command in reader.next_commands(3)] == [7]
    with pytest.raises(FrameError):
        reader.next_commands(3)
