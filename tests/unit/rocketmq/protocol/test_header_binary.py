"""Binary headers beyond what test_frames covers, and fields that were read before."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.protocol import frames, header_binary, known_fields
from penstock.rocketmq.protocol.command import Command, Language, Serialization
from penstock.rocketmq.protocol.errors import FrameError
from penstock.rocketmq.protocol.known_fields import CODES_MAX, MISSES_MAX, KnownRequests


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


# --- known fields ---------------------------------------------------------------------------------

SEND = {"a": "PG", "b": "T", "e": "0", "f": "0", "g": "1700000000000", "i": "KEYS\x01k0\x02"}


def header(code: int, fields: dict[str, str]) -> bytes:
    return header_binary.encode(Command(code, 7, fields, serialization=Serialization.BINARY))


def knowing() -> KnownRequests:
    """What was sent to three queues is remembered."""
    known = KnownRequests()
    for queue in ("1", "22", "3"):
        header_binary.decode(header(310, {**SEND, "e": queue}), known)
    return known


def test_only_what_differs_is_cut_out() -> None:
    known = KnownRequests()
    for number in range(100):
        fields = SEND | {"e": str(number), "g": str(10**12 + number), "i": f"K\x01{number}é\x02"}
        assert header_binary.decode(header(310, fields), known).ext == fields
    found = known.of(310)
    assert found is not None
    assert found.misses == 2
    assert [name for _, _, name in found._parts] == ["e", "g", "i"]


def test_clients_that_send_other_fields_do_not_disturb_each_other() -> None:
    known = knowing()
    renamed = {"z" if name == "e" else name: value for name, value in SEND.items()}
    for fields in (renamed, {"b": "T"}, SEND, {"a": "PG", "e": "0"}, SEND):
        assert header_binary.decode(header(310, fields), known).ext == fields


FIELDS = st.dictionaries(
    st.sampled_from(["a", "b", "topic", "queueId", "é"]),
    st.sampled_from(["", "1", "22", "é", "\x00\x01b", "x" * 300]),
    max_size=5,
)


@given(st.lists(st.tuples(st.sampled_from([10, 11]), FIELDS), max_size=30))
def test_any_requests_in_any_order(requests: list[tuple[int, dict[str, str]]]) -> None:
    known = KnownRequests()
    for code, fields in requests:
        data = header(code, fields)
        assert header_binary.decode(data, known) == header_binary.decode(data)


@given(st.data())
def test_damaged_fields_are_what_they_are_to_who_knows_nothing(data: st.DataObject) -> None:
    known = knowing()
    damaged = bytearray(header(310, {**SEND, "e": "44"}))
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)):
        damaged[place] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    outcomes: list[Command | None] = []
    for memory in (None, known):
        try:
            outcomes.append(header_binary.decode(cut, memory))
        except FrameError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]


def test_a_value_that_is_no_text_is_read_in_full() -> None:
    known = knowing()
    damaged = header(310, {**SEND, "e": "!"}).replace(b"!", b"\xff")
    assert header_binary.decode(damaged, known).ext == {**SEND, "e": "\ufffd"}


def test_a_field_that_comes_twice_is_never_remembered() -> None:
    known = KnownRequests()
    field = struct.pack(">H1si1s", 1, b"a", 1, b"1")
    for last in (b"1", b"2", b"3"):
        data = field + struct.pack(">H1si1s", 1, b"a", 1, last)
        fixed = header_binary.FIXED.pack(5, 0, 0, 1, 0, 0) + struct.pack(">i", len(data))
        assert header_binary.decode(fixed + data, known).ext == {"a": last.decode()}


def test_what_is_remembered_has_its_bounds() -> None:
    known = KnownRequests()
    for number in range(MISSES_MAX + 5):
        header_binary.decode(header(1, {f"f{number}": "x"}), known)
    assert known.of(1) is None
    for code in range(2, CODES_MAX + 10):
        header_binary.decode(header(code, SEND), known)
    assert known.of(CODES_MAX + 9) is None
    large = {"a": "x" * (known_fields.BYTES_MAX + 1)}
    assert header_binary.decode(header(2, large), known).ext == large


def test_a_reader_remembers_for_its_connection() -> None:
    reader = frames.FrameReader()
    for number in range(5):
        fields = {**SEND, "e": str(number)}
        reader.feed(frames.encode(Command(310, number, fields, serialization=Serialization.BINARY)))
        command = reader.next_command()
        assert command is not None
        assert command.ext == fields
