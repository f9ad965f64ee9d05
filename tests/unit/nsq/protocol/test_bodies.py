"""Bodies of messages: encoded at once, found in an MPUB or a staged chunk, stamped, translated."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.publish.commit import unplaced
from penstock.core.units import MILLISECOND
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.dead_letters import DeadLetterFrames
from penstock.nsq.protocol.encode import multi_body
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.mpub import MpubScanner
from penstock.nsq.protocol.staged import read_staged
from penstock.nsq.protocol.stamps import stamp
from penstock.nsq.protocol.translation import batch_of, bodies
from penstock.storage.batch import Batch, Dialect
from tools.harness.naive_nsq import naive_frames

TIMESTAMP = 1_700_000_000_123_456_789
FIRST_ID = 0x0123_4567_89AB_CDE0
FIRST, TIME_NS = 100, 77
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


@pytest.mark.parametrize(
    "bodies",
    [
        [b"one"],
        [b"a", b"b"],
        [b"%05d" % number for number in range(1000)],
        [b"x" * (1 + number % 90) for number in range(1000)],
        [b"a", bytes(70_000), b"c"],
    ],
    ids=["one", "few", "even", "mixed", "large"],
)
def test_stamped_frames_are_those_of_the_ids_and_the_time(bodies: list[bytes]) -> None:
    records = Bodies.from_list(bodies)
    batch = unplaced(records, 0)
    frames, _ = records.encode(FIRST_ID, TIMESTAMP)
    assert bytes(batch.frames) != bytes(frames)
    stamp(batch.frames, batch.stride or batch.positions()[:-1], FIRST_ID, TIMESTAMP)
    assert bytes(batch.frames) == bytes(frames)


def test_dead_letters_keep_time_and_body_and_get_new_ids_and_attempts() -> None:
    first, second = (
        bytearray(Bodies.single(body).encode(77, time)[0])
        for body, time in ((b"one", 1111), (b"second", 2222))
    )
    struct.pack_into(">H", second, 16, 5)
    letters = DeadLetterFrames([memoryview(first), memoryview(second)], b"note")
    assert (letters.count, letters.nbytes, letters.stride, letters.note) == (2, 9, 0, b"note")
    frames, positions = letters.encode(1000, 3333)
    assert positions is not None
    assert positions.tolist() == [0, 37, 77]
    expected = naive_frames([b"one"], 1000, 1111) + naive_frames([b"second"], 1001, 2222)
    assert bytes(frames) == b"".join(expected)
    assert bytes(second[16:18]) == b"\x00\x05", "the original is left alone"


@pytest.mark.parametrize("texts", [[b"one"], [b"aa", b"bb", b"cc"], [b"", b"b", b"cc"]])
def test_there_and_back(texts: list[bytes]) -> None:
    source = Batch.build(FIRST, FIRST_ID, TIME_NS, len(texts), 3, [b"xyz"] * len(texts),
                         dialect=Dialect.ROCKETMQ, delay_ns=9, queue=4)  # fmt: skip
    batch = batch_of(source, texts)
    assert (batch.dialect, batch.queue, batch.delay_ns) == (Dialect.NSQ, 4, 9)
    assert (batch.first_offset, batch.count) == (FIRST, len(texts))
    batch.verify()
    end = FIRST + len(texts)
    assert bodies(batch, FIRST, end) == texts
    assert bodies(batch, end - 1, end) == texts[-1:]
    assert bytes(batch.frames) == b"".join(naive_frames(texts, FIRST_ID, TIME_NS))


def test_bodies_of_a_published_batch() -> None:
    texts = [b"%d" % number for number in range(50)]
    frames, table = Bodies.from_list(texts).encode(FIRST_ID, TIME_NS)
    batch = Batch.build(FIRST, FIRST_ID, TIME_NS, 50, 0, [frames], table=table)
    assert bodies(batch, FIRST + 20, FIRST + 30) == texts[20:30]


# --- an MPUB that comes in pieces


@given(equal() | mixed, st.integers(1, 30), st.sampled_from([bytes, bytearray]))
def test_any_pieces_find_the_same(bodies: list[bytes], step: int, kind: type) -> None:
    data = b"##" + multi_body(bodies)
    scanner = MpubScanner(60, 10_000)
    for end in range(2, len(data), step):
        assert not scanner.scan(kind(data[:end]), 2)
    assert scanner.scan(kind(data + b"more"), 2)
    assert scanner.consumed == len(data) - 2
    assert Bodies.from_scan(scanner, data, 2).to_list() == bodies


def test_equal_sizes_are_not_cut_apart() -> None:
    scanner = MpubScanner(60, 10_000)
    assert scanner.scan(multi_body([b"ab"] * 50), 0)
    assert scanner.equal_size == 2
    assert not scanner.bodies


def test_an_error_is_found_as_soon_as_its_bytes_are_there() -> None:
    scanner = MpubScanner(60, 10_000)
    start = struct.pack(">I", 1000) + b"\0\0\0\2ab" * 30
    assert not scanner.scan(start, 0)
    with pytest.raises(ProtocolError, match=r"MPUB invalid message\(30\) body size 0"):
        scanner.scan(start + b"\0\0\0\0", 0)


@pytest.mark.parametrize(
    ("surplus", "missing"),
    [
        (b"", "message(30) body size"),
        (b"\0\0\0", "message(30) body size"),
        (b"\0\0\0\2", "message body"),
        (b"\0\0\0\3ab", "message body"),
    ],
)
def test_the_end_is_told_by_place(surplus: bytes, missing: str) -> None:
    data = struct.pack(">I", 1000) + b"\0\0\0\2ab" * 30 + surplus
    scanner = MpubScanner(60, 10_000)
    assert not scanner.scan(data, 0)
    text = f"E_BAD_MESSAGE MPUB failed to read {missing}"
    assert scanner.end_of_data(len(data)).text == text


@pytest.mark.parametrize("sizes", [[50] * 19, [50] * 18 + [49]])
def test_count_and_sizes_may_not_lead_beyond_the_largest_body(sizes: list[int]) -> None:
    # 19 * 54 + 4 bytes are more than 1000, though nothing was declared about the sum.
    data = multi_body([bytes(size) for size in sizes])
    with pytest.raises(ProtocolError, match=r"E_BAD_BODY MPUB body too big 10.. > 1000"):
        MpubScanner(60, 1000).scan(data, 0)
    assert not MpubScanner(60, 1000).scan(struct.pack(">I", 199), 0)
    with pytest.raises(ProtocolError, match="E_BAD_BODY MPUB invalid message count 200"):
        MpubScanner(60, 1000).scan(struct.pack(">I", 200), 0)


# --- a staged chunk


SIZE_MAX = 20
DELAY_MAX = 1000 * MILLISECOND

Messages = list[tuple[bytes, int]]


def staged(messages: Messages) -> bytes:
    parts = [struct.pack(">II", len(body), delay) + body for body, delay in messages]
    return struct.pack(">I", len(messages)) + b"".join(parts)


def read(body: bytes) -> Messages:
    """The messages with their delays in ms."""
    found = []
    for run in read_staged(body, SIZE_MAX, DELAY_MAX):
        assert run.bodies.count == len(run.bodies.to_list()) > 0
        found += [(each, run.delay_ns // MILLISECOND) for each in run.bodies.to_list()]
    return found


delays = st.sampled_from([0, 0, 0, 1, 1000])
equal_staged = st.integers(1, SIZE_MAX).flatmap(
    lambda size: st.lists(st.tuples(st.binary(min_size=size, max_size=size), delays), min_size=1)
)
mixed_staged = st.lists(st.tuples(st.binary(min_size=1, max_size=SIZE_MAX), delays), min_size=1)


@given(st.one_of(equal_staged, mixed_staged))
def test_what_is_encoded_is_read_in_order(messages: Messages) -> None:
    assert read(staged(messages)) == messages
    runs = read_staged(staged(messages), SIZE_MAX, DELAY_MAX)
    delays = [run.delay_ns for run in runs]
    assert all(one != next_ for one, next_ in itertools.pairwise(delays))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "BAD_BODY no message count"),
        (b"\0\0\0", "BAD_BODY no message count"),
        (staged([]), "BAD_BODY message count 0 in 4 bytes"),
        (b"\xff" * 12, "BAD_BODY message count 4294967295 in 12 bytes"),
        (staged([(b"", 0), (b"a", 0)]), "MSG_EMPTY message 0 has 0 bytes, not 1 to 20"),
        (staged([(bytes(21), 0)]), "MSG_TOO_BIG message 0 has 21 bytes, not 1 to 20"),
        (staged([(b"a", 0), (bytes(21), 0)]), "MSG_TOO_BIG message 1 has 21 bytes, not 1 to 20"),
        (staged([(b"a", 0), (b"b", 1001)]),
         "INVALID_DEFER message 1 is deferred for longer than allowed"),
        (staged([(b"a", 0), (b"bb", 1001)]),
         "INVALID_DEFER message 1 is deferred for longer than allowed"),
        (staged([(b"a", 0), (b"bbbbbbbbbbbbb", 0)])[:-6], "BAD_BODY ends within message 1"),
        (staged([(b"a", 0), (b"b" * 10, 0)])[:15] + b"\0\0\0", "BAD_BODY ends before message 1"),
        (staged([(b"a", 0)]) + b"x", "BAD_BODY 1 bytes behind the last message"),
        (staged([(b"a", 0), (b"bb", 0)]) + b"x", "BAD_BODY 1 bytes behind the last message"),
    ],
)  # fmt: skip
def test_wrong_bodies_are_named(body: bytes, text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read(body)
    assert caught.value.text == text


@given(mixed_staged, st.data())
def test_no_cut_body_is_read(messages: Messages, data: st.DataObject) -> None:
    whole = staged(messages)
    with pytest.raises(ProtocolError):
        read(whole[: data.draw(st.integers(0, len(whole) - 1))])
