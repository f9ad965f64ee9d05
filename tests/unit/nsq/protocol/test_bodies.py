"""Bodies: the quick encoders against the naive one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.protocol.bodies import Bodies, hex_ids
from penstock.nsq.protocol.encode import multi_body
from penstock.nsq.protocol.errors import ProtocolError
from tools.harness.naive_nsq import naive_frames

TIMESTAMP = 1_700_000_000_123_456_789
FIRST_ID = 0x0123_4567_89AB_CDE0

counts = st.integers(1, 40)
mixed = st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=40)


@st.composite
def equal(draw: st.DrawFn) -> list[bytes]:
    size = draw(st.integers(1, 60))
    return draw(st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=40))


def check(bodies: Bodies, expected: list[bytes]) -> None:
    frames, positions = bodies.encode(FIRST_ID, TIMESTAMP)
    wanted = naive_frames(expected, FIRST_ID, TIMESTAMP)
    assert bytes(frames) == b"".join(wanted)
    assert bodies.count == len(expected)
    assert bodies.nbytes == sum(map(len, expected))
    assert bodies.to_list() == expected
    sizes = {len(frame) for frame in wanted}
    assert bodies.stride == (sizes.pop() if len(sizes) == 1 else 0)
    if bodies.stride:
        assert positions is None
    else:
        ends = [sum(map(len, wanted[:index])) for index in range(len(wanted) + 1)]
        assert positions is not None
        assert positions.tolist() == ends
        assert positions.dtype.name == "uint32"


@given(equal() | mixed)
def test_every_way_in_encodes_alike(expected: list[bytes]) -> None:
    check(Bodies.from_list(expected), expected)
    check(Bodies.from_mpub(multi_body(expected), 60), expected)


def test_single() -> None:
    check(Bodies.single(b"x"), [b"x"])


def test_message_frame_of_the_manual() -> None:
    frames, _ = Bodies.single(b"x").encode(0, 1)
    assert bytes(frames).hex() == (
        "0000001f00000002" + "0000000000000001" + "0001" + "30" * 16 + "78"
    )


def test_hex_ids_count_up() -> None:
    assert hex_ids(0xFF, 2) == b"00000000000000ff0000000000000100"


def test_mpub_takes_a_memoryview_and_ignores_what_follows() -> None:
    check(Bodies.from_mpub(memoryview(multi_body([b"a", b"bc"]) + b"more"), 10), [b"a", b"bc"])


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"\0\0", "E_BAD_BODY MPUB failed to read message count"),
        (b"\0\0\0\0", "E_BAD_BODY MPUB invalid message count 0"),
        (b"\xff\xff\xff\xff", "E_BAD_BODY MPUB invalid message count -1"),
        (b"\0\0\0\1\0", "E_BAD_MESSAGE MPUB failed to read message(0) body size"),
        (b"\0\0\0\1\0\0\0\2a", "E_BAD_MESSAGE MPUB failed to read message body"),
        (b"\0\0\0\1\0\0\0\0", "E_BAD_MESSAGE MPUB invalid message(0) body size 0"),
        (b"\0\0\0\1\0\0\0\x0b", "E_BAD_MESSAGE MPUB message too big 11 > 10"),
    ],
)
def test_mpub_errors(body: bytes, text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        Bodies.from_mpub(body, 10, 1000)
    assert caught.value.text == text
    assert caught.value.code == text.split()[0]


@given(st.binary(max_size=300))
def test_lines(data: bytes) -> None:
    lines = [line for line in data.split(b"\n") if line]
    bodies = Bodies.from_lines(data, 300)
    if bodies is None:
        assert not lines
    else:
        check(bodies, lines)


def test_a_line_too_long() -> None:
    assert Bodies.from_lines(b"abc\nde", 3) is not None
    with pytest.raises(ProtocolError, match=r"^MSG_TOO_BIG$"):
        Bodies.from_lines(b"abcd\nde", 3)
