"""Every command and every error in nsqd's order, however the stream is cut (NSQ spec 1.3)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core.units import HOUR, MILLISECOND, SECOND
from penstock.nsq.protocol import encode, params
from penstock.nsq.protocol import events as ev
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.encode import finish
from penstock.nsq.protocol.events import Failure, Finish, Publish, State
from penstock.nsq.protocol.finishes import id_value, read_finishes
from penstock.nsq.protocol.limits import Limits
from penstock.nsq.protocol.params import parse_name, parse_number, signed
from tools.harness.naive_nsq import cut, plain, read_all

SMALL = Limits(max_msg_size=100, max_body_size=1000)
ID = b"0123456789abcdef"
OTHER_ID = b"an_id_of_16bytes"


def i32(number: int) -> bytes:
    return struct.pack(">I", number & 0xFFFF_FFFF)


def only(data: bytes, state: State = State.INIT, **settings: Any) -> Any:
    """The one event of this data; a Failure must end everything."""
    reader = CommandReader(SMALL, **settings)
    reader.state = state
    reader.receive_data(data)
    event = reader.next_event()
    assert reader.next_event() is None
    return event


def failure_of(event: Any) -> str:
    assert isinstance(event, Failure)
    assert event.fatal
    assert event.text.split(" ")[0] == event.code
    return event.text


# --- what is right


@pytest.mark.parametrize(
    ("state", "data", "event"),
    [
        (State.INIT, encode.publish("t", b"x"), ("PUB", "t", 0, [b"x"])),
        (State.INIT, encode.multi_publish("t", [b"a", b"bc"]), ("MPUB", "t", 0, [b"a", b"bc"])),
        (State.INIT, encode.deferred_publish("t", 0, b"x"), ("DPUB", "t", 0, [b"x"])),
        (State.INIT, encode.deferred_publish("t", 3_600_000, b"x"), ("DPUB", "t", HOUR, [b"x"])),
        (State.INIT, b"DPUB t \n\0\0\0\1x", ("DPUB", "t", 0, [b"x"])),
        (State.INIT, b"DPUB t 288230376151711744\n\0\0\0\1x", ("DPUB", "t", 0, [b"x"])),
        (State.INIT, encode.subscribe("t", "c"), ("Subscribe", "t", "c")),
        (State.INIT, encode.identify(b"{}"), ("Identify", b"{}")),
        (State.INIT, encode.auth(b"secret"), ("Auth", b"secret")),
        (State.INIT, encode.NOP, ("Nop",)),
        (State.INIT, b"NOP\r\n", ("Nop",)),
        (State.SUBSCRIBED, encode.CLS, ("Close",)),
        (State.SUBSCRIBED, b"RDY\n", ("Ready", 1)),
        (State.SUBSCRIBED, b"RDY \n", ("Ready", 0)),
        (State.SUBSCRIBED, b"RDY 2500 x\n", ("Ready", 2500)),
        (State.SUBSCRIBED, b"REQ %b 0\n" % ID, ("Requeue", ID, 0, "0")),
        (State.SUBSCRIBED, b"REQ %b \n" % ID, ("Requeue", ID, 0, "")),
        (State.SUBSCRIBED, b"REQ %b 2000\n" % ID, ("Requeue", ID, 2 * SECOND, "2000")),
        (State.SUBSCRIBED, b"REQ %b %d\n" % (ID, 2**64 - 1),
         ("Requeue", ID, -MILLISECOND, "18446744073709551615")),
        (State.SUBSCRIBED, b"REQ %b 288230376151711744\n" % ID,
         ("Requeue", ID, 0, "288230376151711744")),
        (State.CLOSING, encode.touch(OTHER_ID), ("Touch", OTHER_ID)),
        (State.CLOSING, b"RDY 5\nRDY nonsense\nNOP\n", ("Nop",)),
    ],
)  # fmt: skip
def test_what_is_right(state: State, data: bytes, event: tuple[object, ...]) -> None:
    assert plain(only(data, state)) == [event]


def test_a_read_full_of_finishes_is_one_event() -> None:
    event = only(b"".join(encode.finish(b"%016x" % n) for n in range(1000)), State.SUBSCRIBED)
    assert isinstance(event, Finish)
    assert list(event.ids) == list(range(1000))
    assert event.raw == []


@pytest.mark.parametrize(
    ("line", "ids", "raw"),
    [
        (b"FIN %b\r\n" % ID, [0x0123456789ABCDEF], []),
        (b"FIN %b more\n" % ID, [0x0123456789ABCDEF], []),
        (b"FIN %b\n" % ID.upper(), [], [ID.upper()]),
        (b"FIN abcdefghijklmnop\n", [], [b"abcdefghijklmnop"]),
    ],
)
def test_irregular_finishes(line: bytes, ids: list[int], raw: list[bytes]) -> None:
    event = only(line, State.SUBSCRIBED)
    assert (event.ids, event.raw) == (ids, raw)


# --- what is wrong

WRONG_IN_ANY_STATE = [
    (b"\n", "E_INVALID invalid command "),
    (b"ASDF x\n", "E_INVALID invalid command ASDF"),
    (b"pub t\n", "E_INVALID invalid command pub"),
    (b"NOP\r\r\n", "E_INVALID invalid command NOP\r"),
    (b"A\xff\xc3\xa4 x\n", "E_INVALID invalid command A\udcffä"),
    (b"PUB\n", "E_INVALID PUB insufficient number of parameters"),
    (b"PUB \n", 'E_BAD_TOPIC PUB topic name "" is not valid'),
    (b"PUB  t\n", 'E_BAD_TOPIC PUB topic name "" is not valid'),
    (b"PUB t!\n", 'E_BAD_TOPIC PUB topic name "t!" is not valid'),
    (b"PUB bad name\n" + i32(0), "E_BAD_MESSAGE PUB invalid message body size 0"),
    (b"PUB t\n" + i32(-1), "E_BAD_MESSAGE PUB invalid message body size -1"),
    (b"PUB t\n" + i32(101), "E_BAD_MESSAGE PUB message too big 101 > 100"),
    (b"DPUB t\n", "E_INVALID DPUB insufficient number of parameters"),
    (b"DPUB t! x\n", 'E_BAD_TOPIC DPUB topic name "t!" is not valid'),
    (b"DPUB t -1\n", "E_INVALID DPUB could not parse timeout -1"),
    (b"DPUB t 3600001\n", "E_INVALID DPUB timeout 3600001 out of range 0-3600000"),
    (b"DPUB t 18446744073709551615\n",
     "E_INVALID DPUB timeout 18446744073709551615 out of range 0-3600000"),
    (b"DPUB t 1\n" + i32(0), "E_BAD_MESSAGE DPUB invalid message body size 0"),
    (b"DPUB t 1\n" + i32(101), "E_BAD_MESSAGE DPUB message too big 101 > 100"),
    (b"MPUB\n", "E_INVALID MPUB insufficient number of parameters"),
    (b"MPUB t!\n", 'E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "t!" is not valid'),
    (b"MPUB t\n" + i32(0), "E_BAD_BODY MPUB invalid body size 0"),
    (b"MPUB t\n" + i32(-2), "E_BAD_BODY MPUB invalid body size -2"),
    (b"MPUB t\n" + i32(9) + i32(200), "E_BAD_BODY MPUB invalid message count 200"),
    (encode.multi_publish("t", [b"x" * 100] * 11), "E_BAD_BODY MPUB body too big 1148 > 1000"),
    (encode.multi_publish("t", [b"x" * 100] * 5 + [b""]),
     "E_BAD_MESSAGE MPUB invalid message(5) body size 0"),
]  # fmt: skip
WRONG_BEFORE_SUBSCRIBING = [
    (b"SUB\n", "E_INVALID SUB insufficient number of parameters"),
    (b"SUB t\n", "E_INVALID SUB insufficient number of parameters"),
    (b"SUB t! c!\n", 'E_BAD_TOPIC SUB topic name "t!" is not valid'),
    (b"SUB t c!\n", 'E_BAD_CHANNEL SUB channel name "c!" is not valid'),
    (b"AUTH x\n", "E_INVALID AUTH invalid number of parameters"),
    (b"AUTH\n" + i32(1001), "E_BAD_BODY AUTH body too big 1001 > 1000"),
    (b"AUTH\n" + i32(0), "E_BAD_BODY AUTH invalid body size 0"),
    (b"IDENTIFY x\n" + i32(-5), "E_BAD_BODY IDENTIFY invalid body size -5"),
]
WRONG_WHEN_SUBSCRIBED = [
    (b"RDY -1\n", "E_INVALID RDY could not parse count -1"),
    (b"RDY 2501\n", "E_INVALID RDY count 2501 out of range 0-2500"),
    (b"RDY 18446744073709551615\n", "E_INVALID RDY count -1 out of range 0-2500"),
    (b"FIN\n", "E_INVALID FIN insufficient number of params"),
    (b"FIN \n", "E_INVALID invalid message ID"),
    (b"FIN " + ID + b"0\n", "E_INVALID invalid message ID"),
    (b"REQ " + ID + b"\n", "E_INVALID REQ insufficient number of params"),
    (b"REQ x y\n", "E_INVALID invalid message ID"),
    (b"REQ " + ID + b" x\n", "E_INVALID REQ could not parse timeout x"),
    (b"TOUCH\n", "E_INVALID TOUCH insufficient number of params"),
    (b"TOUCH x\n", "E_INVALID invalid message ID"),
]


@pytest.mark.parametrize(
    ("state", "data", "text"),
    [
        *((state, *row) for row in WRONG_IN_ANY_STATE for state in State),
        *((State.INIT, *row) for row in WRONG_BEFORE_SUBSCRIBING),
        *((State.SUBSCRIBED, *row) for row in WRONG_WHEN_SUBSCRIBED),
    ],
)
def test_what_is_wrong(state: State, data: bytes, text: str) -> None:
    assert failure_of(only(data, state)) == text


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("IDENTIFY", {State.INIT}),
        ("AUTH", {State.INIT}),
        ("SUB", {State.INIT}),
        ("RDY", {State.SUBSCRIBED, State.CLOSING}),
        ("FIN", {State.SUBSCRIBED, State.CLOSING}),
        ("REQ", {State.SUBSCRIBED, State.CLOSING}),
        ("TOUCH", {State.SUBSCRIBED, State.CLOSING}),
        ("CLS", {State.SUBSCRIBED}),
    ],
)
@pytest.mark.parametrize("state", list(State))
def test_state_comes_first(name: str, states: set[State], state: State) -> None:
    event = only(name.encode() + b"\n", state)
    wrong = f"E_INVALID cannot {name} in current state"
    assert isinstance(event, Failure) and event.text == wrong if state not in states else True
    if state in states and isinstance(event, Failure):
        assert event.text != wrong


def test_no_subscribing_without_heartbeats() -> None:
    reader = CommandReader()
    reader.heartbeats_disabled = True
    reader.receive_data(b"SUB\n")
    assert failure_of(reader.next_event()) == "E_INVALID cannot SUB with heartbeats disabled"


def test_tls_required() -> None:
    for line, name in ((b"NOP\n", "NOP"), (b"what ever\n", "what"), (b"FIN x\n", "FIN")):
        text = f"E_INVALID cannot {name} in current state (TLS required)"
        assert failure_of(only(line, tls_required=True)) == text
    assert only(encode.identify(b"{}"), tls_required=True) == ev.Identify(b"{}")


def test_magic() -> None:
    assert only(encode.MAGIC_V2 + encode.NOP, expect_magic=True) == ev.Nop()
    assert only(b"  V1", expect_magic=True) == Failure("E_BAD_PROTOCOL", "E_BAD_PROTOCOL", True, "")
    assert only(b"  V", expect_magic=True) is None


def test_it_tells_whether_the_magic_has_come() -> None:
    reader = CommandReader(expect_magic=True)
    for piece, greeted in ((b"  ", False), (b"V2", True), (b"NOP\n", True)):
        reader.receive_data(piece)
        reader.next_event()
        assert reader.greeted is greeted


def test_a_failed_mpub_tells_the_topic_that_exists_by_now() -> None:
    assert only(b"MPUB mine\n" + i32(0)).topic == "mine"
    assert only(b"MPUB mine\n" + i32(8) + i32(0)).topic == "mine"
    assert only(b"MPUB m!\n").topic is None
    assert only(b"PUB mine\n" + i32(0)).topic is None


def test_the_line_of_an_mpub_may_be_an_event_of_its_own() -> None:
    def announcing(line: bytes) -> CommandReader:
        reader = CommandReader()
        reader.announce_mpub = True
        reader.receive_data(line)
        return reader

    assert failure_of(announcing(b"MPUB mi!ne\n").next_event()).startswith("E_BAD_TOPIC")
    reader = announcing(b"MPUB mine\n")
    assert reader.next_event() == ev.MpubLine("mine")
    assert reader.next_event() is None
    body = i32(1) + i32(2) + b"hi"
    reader.receive_data(i32(len(body)) + body + encode.NOP)
    assert plain(reader.next_event()) == [("MPUB", "mine", 0, [b"hi"])]  # type: ignore[arg-type]
    assert reader.next_event() == ev.Nop()
    reader = announcing(b"MPUB mine\n")
    assert reader.next_event() == ev.MpubLine("mine")
    assert failure_of(reader.eof()) == "E_BAD_BODY MPUB failed to read body size"


@pytest.mark.parametrize("declared", [1, 500])
def test_the_declared_size_of_an_mpub_is_not_followed(declared: int) -> None:
    body = i32(2) + b"\0\0\0\1a\0\0\0\1b"
    events = read_all([b"MPUB t\n" + i32(declared) + body + encode.NOP])
    assert events == [("MPUB", "t", 0, [b"a", b"b"]), ("Nop",)]


# --- limits


def test_the_longest_line() -> None:
    name = b"x" * 16383
    assert failure_of(only(name + b"\n")) == f"E_INVALID invalid command {name.decode()}"
    assert only(name + b"x\n") == ev.Drop()


def test_a_line_without_an_end_is_dropped_as_soon_as_it_is_too_long() -> None:
    reader = CommandReader()
    reader.receive_data(b"x" * 16383)
    assert reader.next_event() is None
    reader.receive_data(b"x")
    assert reader.next_event() == ev.Drop()
    reader.receive_data(encode.NOP)
    assert reader.next_event() is None


def test_an_idle_reader_holds_no_data() -> None:
    reader = CommandReader()
    reader.receive_data(encode.publish("t", bytes(100_000)))
    assert isinstance(reader.next_event(), Publish)
    assert reader.next_event() is None
    assert reader.unread == len(reader._data) == 0


def test_what_follows_identify_can_be_taken_over() -> None:
    reader = CommandReader()
    reader.receive_data(encode.identify(b"{}") + b"\x16\x03\x01")
    assert reader.next_event() == ev.Identify(b"{}")
    assert reader.take_unread() == b"\x16\x03\x01"
    reader.receive_data(encode.NOP)
    assert reader.next_event() == ev.Nop()


# --- the end of the stream, and wherever it is cut


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", None),
        (b"PUB t", None),
        (b"PUB t\n", "E_BAD_MESSAGE PUB failed to read message body size"),
        (b"PUB t\n\0\0\0", "E_BAD_MESSAGE PUB failed to read message body size"),
        (b"PUB t\n\0\0\0\2x", "E_BAD_MESSAGE PUB failed to read message body"),
        (b"DPUB t 1\n\0\0\0\2x", "E_BAD_MESSAGE DPUB failed to read message body"),
        (b"MPUB t\n\0", "E_BAD_BODY MPUB failed to read body size"),
        (b"MPUB t\n" + i32(20) + b"\0", "E_BAD_BODY MPUB failed to read message count"),
        (b"MPUB t\n" + i32(20) + i32(2) + b"\0\0\0\1a\0",
         "E_BAD_MESSAGE MPUB failed to read message(1) body size"),
        (b"IDENTIFY\n\0", "E_BAD_BODY IDENTIFY failed to read body size"),
        (b"IDENTIFY\n\0\0\0\2{", "E_BAD_BODY IDENTIFY failed to read body"),
        (b"AUTH\n\0\0\0\2s", "E_BAD_BODY AUTH failed to read body"),
        (b"PUB t\n\0\0\0\0", "E_BAD_MESSAGE PUB invalid message body size 0"),
    ],
)  # fmt: skip
def test_end_of_stream(data: bytes, text: str | None) -> None:
    reader = CommandReader()
    reader.receive_data(data)
    failure = reader.next_event() or reader.eof()
    assert (failure and failure_of(failure)) == text
    assert reader.eof() is None


topics = st.sampled_from(["t", "topic.with-64_letters", "e#ephemeral"])
bodies = st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=30)
same_bodies = st.builds(lambda body, n: [body] * n, st.binary(min_size=1), st.integers(1, 60))
strange_ids = st.sampled_from([ID.upper(), OTHER_ID])
ids = st.integers(0, 2**64 - 1).map(lambda n: b"%016x" % n) | strange_ids
valid = st.one_of(
    st.builds(encode.publish, topics, st.binary(min_size=1, max_size=300)),
    st.builds(encode.deferred_publish, topics, st.integers(0, 3_600_000), st.binary(min_size=1)),
    st.builds(encode.multi_publish, topics, bodies | same_bodies),
    st.lists(ids, min_size=1, max_size=40).map(lambda many: b"".join(map(encode.finish, many))),
    st.builds(encode.requeue, ids, st.integers(0, 10**7)),
    st.builds(encode.touch, ids),
    st.builds(encode.ready, st.integers(0, 2500)),
    st.just(encode.NOP),
)
broken = st.sampled_from([data for data, _ in WRONG_IN_ANY_STATE]) | st.binary(max_size=20)
streams = st.builds(
    lambda good, bad: b"".join(good) + bad, st.lists(valid, max_size=8), st.just(b"") | broken
)
cuts = st.lists(st.integers(0, 4000), max_size=10) | st.just(range(10_000))


@given(streams, st.none() | st.integers(0, 5000), cuts)
def test_any_cut_gives_the_same_events(data: bytes, end: int | None, at: Iterable[int]) -> None:
    data = data[:end]
    assert read_all(cut(data, at)) == read_all([data])


@pytest.mark.parametrize("size", [100_000, 400_000])
@pytest.mark.parametrize("step", [1000, 65536])
def test_bodies_larger_than_a_read(size: int, step: int) -> None:
    data = b"".join(
        (
            encode.publish("t", b"p" * size),
            encode.multi_publish("t", [b"m" * 200] * (size // 200)),
            encode.multi_publish("t", [b"m" * (1 + n % 300) for n in range(size // 200)]),
            encode.finish(ID) * 3,
        )
    )
    assert read_all(cut(data, range(0, len(data), step))) == read_all([data])


def test_data_may_run_ahead_of_the_events() -> None:
    data = (encode.publish("t", b"x" * 200) + encode.finish(ID)) * 2000
    reader = CommandReader()
    reader.state = State.SUBSCRIBED
    found = []
    for piece in cut(data, range(0, len(data), 50_000)):
        reader.receive_data(piece)
        if (event := reader.next_event()) is not None:
            found += plain(event)
    while (event := reader.next_event()) is not None:
        found += plain(event)
    assert found == read_all([data])


DOCUMENTED = {"E_INVALID", "E_BAD_BODY", "E_BAD_TOPIC", "E_BAD_CHANNEL", "E_BAD_MESSAGE"}
WORDS = b"PUB |MPUB t\n|DPUB t |FIN |REQ |SUB |IDENTIFY\n|AUTH\n|RDY |TOUCH |CLS\n| |\n"
SIZES = [b"\0\0\0\5", b"\0\0\0\1", b"\xff\xff\xff\xff"]
fragments = st.sampled_from([*WORDS.split(b"|"), *SIZES, ID])
garbage = st.lists(fragments | st.binary(max_size=12), max_size=15).map(b"".join)


@given(garbage, st.sampled_from(list(State)))
@example(b"FIN " + ID + b"\n" + b"FIN \xff" + b"\n" * 30, State.SUBSCRIBED)
def test_garbage_gives_documented_failures_only(data: bytes, state: State) -> None:
    reader = CommandReader(SMALL)
    events = read_all([data], state, reader)
    failures = [event for event in events if event[0] == "Failure"]
    assert all(event[1] in DOCUMENTED for event in failures)
    assert failures in ([], events[-1:])
    assert reader.next_event() is None or not failures


# --- runs of FINs


numbers = st.integers(0, 2**64 - 1)


@given(st.lists(numbers, max_size=40), st.binary(max_size=30), st.integers(0, 5))
def test_reads_the_run_and_no_further(ids: list[int], rest: bytes, start: int) -> None:
    data = b"#" * start + b"".join(finish(b"%016x" % number) for number in ids) + rest
    found = read_finishes(data, start)
    assert isinstance(found, list) or found.dtype.name == "uint64"
    assert list(map(int, found))[: len(ids)] == ids


@pytest.mark.parametrize(
    "line",
    [
        b"FIN 0123456789abcdeg\n",
        b"FIN 0123456789abcdeF\n",
        b"FIN 0123456789abcde\r\n",
        b"fin 0123456789abcdef\n",
        b"FIN 0123456789abcdef\r",
        b"FIN 0123456789abcde\n\n",
        b"FIN 01234567\n9abcdef\n",
    ],
)
@pytest.mark.parametrize("before", [0, 3, 30])
@pytest.mark.parametrize("after", [0, 30])
def test_an_irregular_line_ends_the_run(line: bytes, before: int, after: int) -> None:
    regular = finish(b"00000000000000ff")
    assert len(read_finishes(regular * before + line + regular * after, 0)) == before


@given(st.binary(min_size=14, max_size=18) | st.text("0123456789abcdefABx_ +-").map(str.encode))
def test_id_value(raw: bytes) -> None:
    value = id_value(raw)
    if value is None:
        assert len(raw) != 16 or set(raw) - set(b"0123456789abcdef")
    else:
        assert b"%016x" % value == raw


# --- names and numbers of command lines


def test_names_are_remembered() -> None:
    assert parse_name(b"orders#ephemeral") == "orders#ephemeral"
    assert parse_name(b"orders#ephemeral") is parse_name(b"orders#ephemeral")
    assert parse_name(b"#ephemeral") is None
    assert parse_name(b"t\n") is None


def test_memory_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(params, "_MAX_REMEMBERED", 3)
    monkeypatch.setattr(params, "_remembered", {})
    for number in range(10):
        assert parse_name(b"t%d" % number) == f"t{number}"
    assert len(params._remembered) <= 3


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (b"", 0),
        (b"0", 0),
        (b"007", 7),
        (b"18446744073709551615", 2**64 - 1),
        (b"18446744073709551616", 0),
        (b"-1", None),
        (b"+1", None),
        (b" 1", None),
        (b"1_0", None),
        (b"1.0", None),
        ("٣".encode(), None),
    ],
)
def test_numbers(raw: bytes, number: int | None) -> None:
    assert parse_number(raw) == number


@given(st.integers(0, 10**80))
def test_numbers_wrap(number: int) -> None:
    assert parse_number(b"%d" % number) == number % 2**64


def test_a_number_of_a_whole_line() -> None:
    assert parse_number(b"1" * 16000) == int("1" * 64) % 2**64


def test_signed() -> None:
    numbers = {0: 0, 2**63 - 1: 2**63 - 1, 2**63: -(2**63), 2**64 - 1: -1, 2**64: 0}
    assert {number: signed(number) for number in numbers} == numbers
