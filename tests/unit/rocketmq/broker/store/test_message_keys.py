"""The keys of stored messages, taken from their bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh32_intdigest

from penstock.rocketmq.broker.store import message_keys
from penstock.rocketmq.broker.store.message_keys import hashes_of
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import message, properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag
from penstock.storage.batch import Batch, Dialect


@pytest.mark.parametrize("length", [*range(40), 56, 63, 64, 200])
def test_the_same_hashes(length: int) -> None:
    keys = [os.urandom(length) for _ in range(20)]
    table = np.frombuffer(b"".join(keys), np.uint8).reshape(20, length)
    assert hashes_of(table).tolist() == [xxh32_intdigest(key) for key in keys]


def test_columns_of_a_wider_table() -> None:
    table = np.arange(20 * 30, dtype=np.uint16).astype(np.uint8).reshape(20, 30)
    wanted = [xxh32_intdigest(row[5:26].tobytes()) for row in table]
    assert hashes_of(table[:, 5:26]).tolist() == wanted


IPV4 = Host(bytes((127, 0, 0, 1)), 10911)
IPV6 = Host(bytes(15) + b"\1", 10911)


def frame(
    text: str, *, topic: str = "T", body: bytes = b"body", host: Host = IPV4, sys_flag: int = 0
) -> bytes:
    """A stored message with these properties."""
    return message.encode(
        StoredMessage(topic, body, 0, 0, 0, host, IPV4, 1, 2, text, sys_flag=sys_flag)
    )


def batch(frames: list[bytes], first: int = 0, dialect: int = Dialect.ROCKETMQ) -> Batch:
    table = np.cumsum([0, *map(len, frames)], dtype=np.uint32)
    return Batch.build(first, first, 0, len(frames), 0, frames, table=table, dialect=dialect)


def text(**values: str) -> str:
    return properties.join(values)


SAMPLES: Mapping[str, tuple[bytes, list[bytes]]] = {
    "none": (frame(""), []),
    "unique": (frame(text(UNIQ_KEY="A1")), [b"A1"]),
    "words": (frame(text(KEYS="a  b c ")), [b"a", b"b", b"c"]),
    "both": (frame(text(KEYS="k", TAGS="t", UNIQ_KEY="A1")), [b"A1", b"k"]),
    "unended": (frame("TAGS\x01t\x02UNIQ_KEY\x01A1"), [b"A1"]),
    "longer names": (frame(text(MY_KEYS="x", X_UNIQ_KEY="y", KEYS="k")), [b"k"]),
    "longer names first": (frame(text(X_UNIQ_KEY="y", UNIQ_KEY="A1")), [b"A1"]),
    "only longer names": (frame(text(MY_KEYS="x", X_UNIQ_KEY="y")), []),
    "empty": (frame("KEYS\x01\x02UNIQ_KEY\x01\x02"), []),
    "blank": (frame("KEYS\x01  \x02"), []),
    "in the body": (frame(text(TAGS="t"), body=b"\x02KEYS\x01x\x02UNIQ_KEY\x01y\x02"), []),
    "IPv6": (frame(text(KEYS="k"), host=IPV6), [b"k"]),
    "long topic": (frame(text(KEYS="k"), topic="t" * 200), [b"k"]),
    "half": (frame(text(KEYS="k"), sys_flag=SysFlag.PREPARED), [b"k"]),
    "rolled back": (frame(text(KEYS="k"), sys_flag=SysFlag.ROLLBACK), []),
    "no ASCII": (frame(text(KEYS="Schlüssel")), ["Schlüssel".encode()]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_keys_of_one_message(name: str) -> None:
    stored, wanted = SAMPLES[name]
    assert message_keys.keys(stored) == wanted
    hashes, numbers = message_keys.rows([batch([stored])], 0)
    assert [h for h in hashes if h != message_keys.hash_of(b"")] == [
        message_keys.hash_of(key) for key in wanted
    ]
    assert set(numbers) <= {0}


def test_rows_of_batches_count_from_the_first_offset() -> None:
    frames = [stored for stored, _ in SAMPLES.values()]
    wanted = [
        (message_keys.hash_of(key), number + 100)
        for number, (_, keys) in enumerate(SAMPLES.values())
        for key in keys
    ]
    foreign = batch([frame(text(KEYS="k"))], 50, Dialect.NSQ)
    later = batch(frames, 150)
    rows = list(zip(*message_keys.rows([foreign, later], 50), strict=True))
    assert [row for row in rows if row[0] != message_keys.hash_of(b"")] == wanted


def test_frames_of_one_size() -> None:
    frames = [frame(text(KEYS=f"k{number}")) for number in range(10)]
    even = Batch.build(0, 0, 0, 10, len(frames[0]), frames, dialect=Dialect.ROCKETMQ)
    hashes, numbers = message_keys.rows([even], 0)
    assert list(hashes) == [message_keys.hash_of(b"k%d" % number) for number in range(10)]
    assert list(numbers) == list(range(10))


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), min_size=1)


@given(st.dictionaries(WORDS, WORDS), st.lists(WORDS), st.booleans(), st.binary())
def test_what_the_properties_say_is_found(
    others: dict[str, str], words: list[str], ended: bool, body: bytes
) -> None:
    values = {**others, "KEYS": " ".join(words)}
    joined = properties.join(values)
    stored = frame(joined if ended else joined.removesuffix("\x02"), body=body)
    unique = others.get("UNIQ_KEY")
    wanted = [word.encode() for word in ([unique] if unique else []) + words]
    assert message_keys.keys(stored) == wanted
    hashes, _ = message_keys.rows([batch([stored])], 0)
    assert list(hashes) == [message_keys.hash_of(key) for key in wanted]


def alike(frames: list[bytes], first: int) -> Batch:
    return Batch.build(
        first, first, 0, len(frames), len(frames[0]), frames, dialect=Dialect.ROCKETMQ
    )


def listed(batches: list[Batch], first: int) -> list[tuple[int, int]]:
    """The rows as they are when each message is looked at by itself."""
    return [
        (message_keys.hash_of(key), number - first)
        for each in batches
        for number in range(each.first_offset, each.next_offset)
        for key in message_keys.keys(bytes(each.slice(number, number + 1)))
    ]


TEXTS = {
    "unique": "UNIQ_KEY\x01A%02d\x02TAGS\x01t\x02",
    "unended": "TAGS\x01t\x02UNIQ_KEY\x01A%02d",
    "both": "KEYS\x01k%02d\x02UNIQ_KEY\x01A%02d\x02",
    "none": "TAGS\x01t%02d\x02",
    "longer name": "X_KEYS\x01k%02d\x02KEYS\x01k\x02",
    "words": "KEYS\x01a %02d\x02",
    "a tag that differs": "TAGS\x01t%02d\x02UNIQ_KEY\x01A%02d\x02",
}


@pytest.mark.parametrize("name", TEXTS)
def test_many_messages_of_one_layout(name: str) -> None:
    texts = [TEXTS[name].replace("%02d", f"{number:02}") for number in range(60)]
    frames = [frame(each, body=f"{number:04}".encode()) for number, each in enumerate(texts)]
    batches = [alike(frames[:40], 100), alike(frames[40:41], 140), alike(frames[41:], 141)]
    rows = list(zip(*message_keys.rows(batches, 90), strict=True))
    assert rows == listed(batches, 90)


ODD = {
    "another property": frame("KEYS\x01kk\x02TAG\x01A\x02"),
    "a property inside of the value": frame("TAG\x01\x02KEYS\x01kk\x02"),
    "two words": frame("TAG\x01A\x02KEYS\x01k k\x02").replace(b"k k", b"k "[:2]),
    "a longer topic": frame("TAG\x01A\x02KEYS\x01kk\x02", topic="TT", body=b"bod"),
    "rolled back": frame("TAG\x01A\x02KEYS\x01kk\x02", sys_flag=SysFlag.ROLLBACK),
}


@pytest.mark.parametrize("place", [0, 7, 29])
@pytest.mark.parametrize("name", ODD)
def test_one_that_is_otherwise_in_the_middle(name: str, place: int) -> None:
    frames = [frame(f"TAG\x01A\x02KEYS\x01{number:02}\x02") for number in range(30)]
    size = len(frames[0])
    frames[place] = ODD[name][:size].ljust(size, b"\x02")
    batches = [alike(frames, 0)]
    rows = list(zip(*message_keys.rows(batches, 0), strict=True))
    assert [row for row in rows if row[0] != message_keys.hash_of(b"")] == listed(batches, 0)


def test_damage_between_two_batches_leaves_the_offsets_right() -> None:
    frames = [frame(f"KEYS\x01{number:02}\x02") for number in range(40)]
    batches = [alike(frames[:20], 0), alike(frames[20:], 1000)]
    rows = list(zip(*message_keys.rows(batches, 0), strict=True))
    assert rows == listed(batches, 0)
    assert rows[20][1] == 1000
