"""Binary headers beyond what test_frames covers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import lane
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


# --- by compiled code or not ----------------------------------------------------------------------

FIELDS = st.dictionaries(
    st.sampled_from(["a", "b", "topic", "queueId", "é", ""]),
    st.sampled_from(["", "1", "22", "é", "\x00\x01b", "x" * 300]),
    max_size=5,
)


@pytest.mark.skipif(lane.COMPILED is None, reason=f"compiled lane: {lane.STATE}")
@given(FIELDS, st.data())
def test_compiled_code_reads_what_python_reads(fields: dict[str, str], data: st.DataObject) -> None:
    whole = header_binary.encode(Command(310, 7, fields, serialization=Serialization.BINARY))
    damaged = bytearray(whole)
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=3)):
        damaged[place] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for header in (whole, cut):
        with pytest.MonkeyPatch.context() as patch:
            found = decoded(header)
            patch.setattr(lane, "fields_of", lambda _: None)
            assert found == decoded(header)


def decoded(header: bytes) -> Command | str:
    """The command, or why there is none."""
    try:
        return header_binary.decode(header)
    except FrameError as error:
        return str(error)


def test_of_a_field_that_comes_twice_the_last_counts() -> None:
    data = b"".join(struct.pack(">H1si1s", 1, b"a", 1, each) for each in (b"1", b"2"))
    fixed = header_binary.FIXED.pack(5, 0, 0, 1, 0, 0) + struct.pack(">i", len(data))
    assert header_binary.decode(fixed + data).ext == {"a": "2"}
