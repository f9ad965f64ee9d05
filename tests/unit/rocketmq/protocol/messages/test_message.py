"""Stored messages: records, batches of one send, properties, places and times, and bodies."""

from __future__ import annotations

import contextlib
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.protocol.bodies import (
    BATCH_BYTES_MAX,
    BODY_BYTES_MAX,
    bodies,
    body_of,
    queue_offset,
)
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import batch_body, message, properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import BODY_LENGTH_AT, StoredMessage, SysFlag
from penstock.rocketmq.protocol.messages.stamps import stamp
from penstock.storage.batch import Batch, Dialect

GOLDEN = bytes.fromhex(
    "00000068 DAA320A7 3610A686 00000003 00000001 000000000000002A 00000000000003E8 00000000"
    "0000018BCFE56800 0A000001 0000C350 0000018BCFE56801 0A000002 00002A9F 00000000"
    "0000000000000000 00000005 68656C6C6F 01 54 0007 4B455953016B02"
)
RECORD = StoredMessage(
    "T", b"hello", 3, 42, 1000, Host.parse("10.0.0.1:50000"), Host.parse("10.0.0.2:10911"),
    1700000000000, 1700000000001, "KEYS\x01k\x02", flag=1,
)  # fmt: skip
IPV4, IPV6 = Host(b"\x7f\x00\x00\x01", 10911), Host(bytes(range(16)), 1)


def test_golden_record() -> None:
    assert message.encode(RECORD) == GOLDEN
    assert message.decode(GOLDEN) == (RECORD, len(GOLDEN))
    assert RECORD.offset_id == "0A00000200002A9F00000000000003E8"
    assert message.body_crc(b"hello") == 907060870
    assert GOLDEN[20:28] == (42).to_bytes(8, "big")


def test_records_one_after_the_other() -> None:
    assert list(message.decode_all(GOLDEN * 3)) == [RECORD] * 3
    assert list(message.decode_all(b"")) == []
    records = message.decode_all(GOLDEN + GOLDEN[:50])
    assert next(records) == RECORD
    with pytest.raises(BodyError, match=f"cut short, at byte {len(GOLDEN)}"):
        next(records)


def test_every_cut_is_noticed() -> None:
    for end in range(len(GOLDEN)):
        with pytest.raises(BodyError):
            message.decode(GOLDEN[:end])


def test_a_long_topic_of_a_negative_length_is_refused() -> None:
    topic = "t" * 200
    damaged = bytearray(message.encode(replace(RECORD, topic=topic)))
    damaged[damaged.index(topic.encode()) - 2] = 0x80
    with pytest.raises(BodyError, match="a length of -"):
        message.decode(bytes(damaged))


@pytest.mark.parametrize(
    ("place", "value", "error"),
    [(0, 0x40, "of 1073741928 bytes that is cut short"), (3, 0xFF, "255 bytes that is cut short"),
     (3, 0x60, "a stored message of 104 bytes says 96"), (4, 0, "the magic 00A320A7"),
     (8, 0x76, "whose body has changed"), (84, 0x40, "a length of 1073741829"),
     (84, 0x80, "a length of -"), (88, 0, "whose body has changed"), (93, 0x41, "cut short"),
     (95, 0x40, "of 16488 bytes says 104"), (95, 0x80, "a length of -")],
)  # fmt: skip
def test_damage_is_noticed(place: int, value: int, error: str) -> None:
    damaged = bytearray(GOLDEN)
    damaged[place] = value
    with pytest.raises(BodyError, match=error):
        message.decode(bytes(damaged))


hosts = st.builds(Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
                  st.integers(0, 65535))  # fmt: skip


@given(hosts, hosts, st.binary(max_size=30), st.integers(1, 200), st.text(max_size=5))
def test_round_trips(born: Host, store: Host, body: bytes, topic: int, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    record = StoredMessage("t" * topic, body, 1, 2, 3, born, store, 4, 5, text, -1, 0x101, 6, 7)
    encoded = message.encode(record)
    record.sys_flag |= SysFlag.BORN_HOST_IPV6 if born.is_ipv6 else 0
    record.sys_flag |= SysFlag.STORE_HOST_IPV6 if store.is_ipv6 else 0
    assert message.decode(encoded) == (record, len(encoded))


def test_properties_that_are_too_long() -> None:
    with pytest.raises(ValueError, match="32767"):
        message.encode(replace(RECORD, properties="x" * 32768))
    with pytest.raises(ValueError, match="32767"):
        batch_body.encode([BatchedMessage(b"", "x" * 32768)])


@pytest.mark.parametrize("topic", ["T", "T" * 200])
@pytest.mark.parametrize("host", ["10.0.0.1:50000", "[::1]:50000"])
def test_the_parts_of_a_record_are_found_without_decoding_it(topic: str, host: str) -> None:
    parsed = Host.parse(host)
    record = message.encode(replace(RECORD, topic=topic, born_host=parsed, store_host=parsed))
    body_at, properties_at = message.parts_at(record)
    assert record[body_at : body_at + 5] == b"hello"
    assert record[properties_at:] == b"KEYS\x01k\x02"
    assert message.properties_text(record) == "KEYS\x01k\x02"
    part = message.topic_part(topic.encode())
    assert message.packed_size(part, b"hello", b"KEYS\x01k\x02", parsed, parsed) == len(record)


@pytest.mark.parametrize("topic", ["T", "long" * 40])
@pytest.mark.parametrize("born", [IPV4, IPV6])
def test_a_packer_packs_what_pack_does(topic: str, born: Host) -> None:
    """Alone, and neighbours one after the other."""

    def packed(number: int, flag: int, body: bytes, text: bytes) -> bytes:
        part = message.topic_part(topic.encode())
        return message.pack(part, body, text, 7, 8 + number, 9 + number, born, 10, IPV4, 11, flag,
                            1, 2, 0)  # fmt: skip

    packer = message.Packer(topic, born, IPV4, 3, 1, 2)
    record = packer.pack(b"body", b"a\x01b", 7, 8, 9, 10, 11)
    assert record == packed(0, 3, b"body", b"a\x01b")
    assert len(record) == packer.fixed_bytes + len(b"body") + len(b"a\x01b")
    sent = [(3, b"body", b"a\x01b"), (-4, b"", b"")]
    expected = [packed(number, *each) for number, each in enumerate(sent)]
    assert packer.pack_all(sent, 7, 8, 9, 10, 11) == b"".join(expected)


# --- batches of one send --------------------------------------------------------------------------

BATCH = bytes.fromhex(
    "00000033 00000000 00000000 00000000 00000001 62 001C 4B455953016B31 02 574149540174727565 02"
    "54414753 01 54616741 02"
)
batched = st.builds(
    BatchedMessage, st.binary(max_size=20), st.just("KEYS\x01k\x02"), st.integers(-5, 5)
)


def test_a_golden_batch() -> None:
    one = BatchedMessage(b"b", "KEYS\x01k1\x02WAIT\x01true\x02TAGS\x01TagA\x02")
    assert batch_body.encode([one]) == BATCH
    assert batch_body.decode(BATCH) == [one]


@given(st.lists(batched, min_size=1, max_size=5))
def test_batches_come_back_and_every_cut_is_noticed(batch: list[BatchedMessage]) -> None:
    data = batch_body.encode(batch)
    assert batch_body.decode(data) == batch
    whole = [len(batch_body.encode(batch[:count])) for count in range(1, len(batch) + 1)]
    for end in range(len(data)):
        if end in whole:
            assert batch_body.decode(data[:end]) == batch[: whole.index(end) + 1]
        else:
            with pytest.raises(BodyError):
                batch_body.decode(data[:end])


@given(st.binary(max_size=60))
def test_garbage_raises_nothing_else(data: bytes) -> None:
    with contextlib.suppress(BodyError):
        batch_body.decode(data)


# --- properties -----------------------------------------------------------------------------------

TEXT = "XTAGS\x01no\x02TAGS\x01yes\x02KEYS\x01k"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("KEYS\x01k\x02TAGS\x01a\x02", {"KEYS": "k", "TAGS": "a"}),
        ("KEYS\x01k\x02TAGS\x01a", {"KEYS": "k", "TAGS": "a"}),
        ("", {}),
        ("\x01v\x02n\x01\x02junk\x02a\x01b\x02a\x01c", {"a": "c"}),
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
    ],
)
def test_parsing(text: str, values: dict[str, str]) -> None:
    assert properties.parse(text) == values


def test_joining() -> None:
    assert properties.join({"KEYS": "k", "empty": "", "TAGS": "a"}) == "KEYS\x01k\x02TAGS\x01a\x02"


@pytest.mark.parametrize(
    ("name", "value", "rest"),
    [
        ("TAGS", "yes", "XTAGS\x01no\x02KEYS\x01k"),
        ("KEYS", "k", "XTAGS\x01no\x02TAGS\x01yes\x02"),
        ("XTAGS", "no", "TAGS\x01yes\x02KEYS\x01k"),
        ("GS", None, TEXT),
    ],
)
def test_one_value_and_the_text_without_it(name: str, value: str | None, rest: str) -> None:
    assert properties.value_of(TEXT, name) == value
    assert properties.without(TEXT, name) == rest


def test_an_only_value_and_an_empty_one() -> None:
    assert properties.without("WAIT\x01true\x02", "WAIT") == ""
    assert properties.value_of("TAGS\x01\x02", "TAGS") is None


def test_whole_numbers() -> None:
    assert properties.number("0") == 0
    assert properties.number("9" * 18) == 10**18 - 1
    for text in (None, "", "-1", "+1", "1.0", " 1", "\u00b2", "\u0661", "9" * 19, "9" * 10_000):
        assert properties.number(text) is None


# --- places and times -----------------------------------------------------------------------------


@pytest.mark.parametrize("born", [IPV4, IPV6])
@pytest.mark.parametrize("store", [IPV4, IPV6])
@pytest.mark.parametrize("sizes", [[3, 3, 3], [0, 700, 1], [5]])
def test_only_places_and_times_change(born: Host, store: Host, sizes: list[int]) -> None:
    messages = [
        StoredMessage("t", b"x" * size, 0, 0, 0, born, store, 111, 0, "KEYS\x01k\x02", 5)
        for size in sizes
    ]
    frames = [message.encode(each) for each in messages]
    buffer = bytearray(b"".join(frames))
    starts = np.cumsum([0, *map(len, frames)], dtype=np.uint32)[:-1]
    assert stamp(memoryview(buffer), starts, 7, 1 << 40, (3 << 40) + 9, 222) == sum(sizes)
    for number, each in enumerate(messages):
        each.queue, each.queue_offset = 7, (1 << 40) + number
        each.physical_offset, each.store_ms = (3 << 40) + 9 + number, 222
    found = list(message.decode_all(buffer))
    for each in found:
        each.sys_flag = 0
    assert found == messages


# --- bodies, for readers of another dialect -------------------------------------------------------

FIRST = 100
LONG = b"a text that is worth it " * 300
PACKED = zlib.compress(LONG)


def stored(body: bytes, sys_flag: int = 0, born: Host = IPV4, host: Host = IPV4) -> bytes:
    """A record with this body."""
    return message.encode(replace(RECORD, body=body, queue_offset=7, born_host=born,
                                  store_host=host, sys_flag=sys_flag))  # fmt: skip


def batch_of(*frames: bytes) -> Batch:
    """The batch that holds these records, from index ``FIRST`` on."""
    table = np.cumsum([0, *map(len, frames)], dtype=np.uint32)
    return Batch.build(FIRST, 5100, 1_700_000_000_123_456_789, len(frames), 0, frames, table=table,
                       dialect=Dialect.ROCKETMQ, queue=2)  # fmt: skip


def found(*frames: bytes) -> list[bytes]:
    return bodies(batch_of(*frames), FIRST, FIRST + len(frames))


@pytest.mark.parametrize("born", [IPV4, IPV6])
@pytest.mark.parametrize("host", [IPV4, IPV6])
def test_any_hosts(born: Host, host: Host) -> None:
    assert body_of(stored(b"hello", 0, born, host))[0] == b"hello"
    assert body_of(stored(b"", 0, born, host))[0] == b""


@pytest.mark.parametrize("beyond", [1, 1 << 30])
def test_a_body_that_would_end_elsewhere_is_the_whole_frame(beyond: int) -> None:
    frame = stored(b"hello")
    start = BODY_LENGTH_AT + 4
    for length in (-1, len(frame) - start + beyond):
        damaged = frame[:BODY_LENGTH_AT] + length.to_bytes(4, "big", signed=True) + frame[start:]
        assert body_of(damaged) == (damaged, 0)


@pytest.mark.parametrize(
    ("body", "sys_flag", "expected"),
    [
        (LONG, 0, LONG),
        (PACKED, 0, PACKED),
        (PACKED, 0x1, LONG),
        (PACKED, 0x301, LONG),
        (PACKED, 0x101, PACKED),  # LZ4
        (PACKED, 0x201, PACKED),  # ZSTD
        (b"no zlib at all", 0x1, b"no zlib at all"),
        (PACKED[:-1], 0x1, PACKED[:-1]),
        (b"", 0x1, b""),
    ],
)
def test_decompression(body: bytes, sys_flag: int, expected: bytes) -> None:
    batch = batch_of(stored(b"before"), stored(body, sys_flag), stored(b"behind"))
    assert bodies(batch, FIRST, FIRST + 3) == [b"before", expected, b"behind"]
    assert bodies(batch, FIRST + 1, FIRST + 2) == [expected]


@pytest.mark.parametrize(("nbytes", "opens"), [(BODY_BYTES_MAX, True), (BODY_BYTES_MAX + 1, False)])
def test_a_body_may_become_so_large(nbytes: int, opens: bool) -> None:
    packed = zlib.compress(bytes(nbytes))
    (body,) = found(stored(packed, 0x1))
    assert len(body) == (nbytes if opens else len(packed))


def test_a_batch_may_become_so_large() -> None:
    packed = zlib.compress(bytes(BODY_BYTES_MAX))
    count = BATCH_BYTES_MAX // BODY_BYTES_MAX
    sizes = [len(body) for body in found(*[stored(packed, 0x1)] * (count + 2))]
    assert sizes == [BODY_BYTES_MAX] * count + [len(packed)] * 2


@pytest.mark.parametrize(
    ("damage", "body"),
    [(each, each) for each in (b"", b"short", stored(b"hello")[:-20])] + [(bytes(200), b"")],
    ids=["nothing", "short", "cut", "zeroes"],
)
def test_what_is_no_stored_message_is_a_body(damage: bytes, body: bytes) -> None:
    assert body_of(damage) == (body, 0)


def test_a_batch_states_its_queue_offset() -> None:
    assert queue_offset(batch_of(stored(b"a"), stored(b"b"))) == 7
    assert queue_offset(batch_of(b"short")) is None
