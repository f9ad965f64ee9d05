"""Stored messages: the golden record, every cut, both kinds of hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import message
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag

GOLDEN = bytes.fromhex(
    "00000068 DAA320A7 3610A686 00000003 00000001 000000000000002A 00000000000003E8 00000000"
    "0000018BCFE56800 0A000001 0000C350 0000018BCFE56801 0A000002 00002A9F 00000000"
    "0000000000000000 00000005 68656C6C6F 01 54 0007 4B455953016B02"
)
RECORD = StoredMessage(
    "T", b"hello", 3, 42, 1000, Host.parse("10.0.0.1:50000"), Host.parse("10.0.0.2:10911"),
    1700000000000, 1700000000001, "KEYS\x01k\x02", flag=1,
)  # fmt: skip


def test_golden_record() -> None:
    assert message.encode(RECORD) == GOLDEN
    assert message.decode(GOLDEN) == (RECORD, len(GOLDEN))
    assert RECORD.offset_id == "0A00000200002A9F00000000000003E8"
    assert message.body_crc(b"hello") == 907060870
    assert GOLDEN[20:28] == (42).to_bytes(8, "big")


def test_records_one_after_the_other() -> None:
    assert list(message.decode_all(GOLDEN * 3)) == [RECORD] * 3
    assert list(message.decode_all(b"")) == []


def test_every_cut_is_noticed() -> None:
    for end in range(len(GOLDEN)):
        with pytest.raises(BodyError):
            message.decode(GOLDEN[:end])


def test_a_record_that_is_cut_short_ends_many() -> None:
    records = message.decode_all(GOLDEN + GOLDEN[:50])
    assert next(records) == RECORD
    with pytest.raises(BodyError, match=f"cut short, at byte {len(GOLDEN)}"):
        next(records)


def test_a_long_topic_of_a_negative_length_is_refused() -> None:
    topic = "t" * 200
    damaged = bytearray(message.encode(replace(RECORD, topic=topic)))
    damaged[damaged.index(topic.encode()) - 2] = 0x80
    with pytest.raises(BodyError, match="a length of -"):
        message.decode(bytes(damaged))


def test_damage_is_noticed() -> None:
    for place in (0, 4, 8, 84, 88, 93, 95):
        damaged = bytearray(GOLDEN)
        damaged[place] ^= 0x40
        with pytest.raises(BodyError):
            message.decode(bytes(damaged))


@pytest.mark.parametrize(
    ("place", "value", "error"),
    [(4, 0, "the magic 00A320A7"), (3, 0xFF, "255 bytes that is cut short"),
     (3, 0x60, "a stored message of 104 bytes says 96"), (88, 0, "whose body has changed"),
     (84, 0x80, "a length of -"), (95, 0x80, "a length of -")],
)  # fmt: skip
def test_damage_is_named(place: int, value: int, error: str) -> None:
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
    read, end = message.decode(message.encode(record))
    record.sys_flag |= SysFlag.BORN_HOST_IPV6 if born.is_ipv6 else 0
    record.sys_flag |= SysFlag.STORE_HOST_IPV6 if store.is_ipv6 else 0
    assert read == record
    assert end == len(message.encode(record))


def test_too_long() -> None:
    record = StoredMessage("T", b"", 0, 0, 0, RECORD.born_host, RECORD.store_host, 0, 0,
                                "x" * 32768)  # fmt: skip
    with pytest.raises(ValueError, match="32767"):
        message.encode(record)


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
@pytest.mark.parametrize("ip", [bytes(4), bytes(range(16))])
def test_a_packer_packs_what_pack_does(topic: str, ip: bytes) -> None:
    born, store = Host(ip, 5000), Host(bytes((127, 0, 0, 1)), 10911)
    packer = message.Packer(topic, born, store, 3, 1, 2)
    record = packer.pack(b"body", b"a\x01b", 7, 8, 9, 10, 11)
    part = message.topic_part(topic.encode())
    assert record == message.pack(
        part, b"body", b"a\x01b", 7, 8, 9, born, 10, store, 11, 3, 1, 2, 0
    )
    assert len(record) == packer.fixed_bytes + len(b"body") + len(b"a\x01b")


def test_a_packer_packs_neighbours_one_after_the_other() -> None:
    born, store = Host(bytes(4), 5000), Host(bytes((127, 0, 0, 1)), 10911)
    packer = message.Packer("T", born, store, 0, 1, 2)
    sent = [(3, b"body", b"a\x01b"), (-4, b"", b"")]
    part = message.topic_part(b"T")
    expected = [
        message.pack(
            part, body, text, 7, 8 + number, 9 + number, born, 10, store, 11, flag, 1, 2, 0
        )
        for number, (flag, body, text) in enumerate(sent)
    ]
    assert packer.pack_all(sent, 7, 8, 9, 10, 11) == b"".join(expected)
