"""Messages on their way into the log: encoded one by one or as a batch, by compiled code or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import lane
from penstock.core.errors import StorageError
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.store.mixed_batch import MixedBatch, with_more
from penstock.rocketmq.broker.store.stored_records import StoredRecords
from penstock.rocketmq.protocol.ids import Host, host_bytes
from penstock.rocketmq.protocol.messages import batch_body, properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import (
    StoredMessage,
    decode_all,
    encode,
    topic_part,
)

V4, V6 = Host(bytes((10, 0, 0, 1)), 50000), Host(bytes(15) + b"\x01", 50001)
CLUSTER = "CLUSTER\x01DefaultCluster"
COMMON = Draft("T", 3, b"", "", 0, 0, 1700000000000, V4, 2)
TIME_NS = 1_700_000_000_123_456_789


def drafts(*bodies: bytes, topic: str = "T", born: Host = V4) -> list[Draft]:
    return [Draft(topic, 2, body, "KEYS\x01k\x02", 1, 0x101, 5, born, 6, 7) for body in bodies]


@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("store", [V4, V6])
@pytest.mark.parametrize("topic", ["T", "x" * 127, "%RETRY%" + "x" * 200])
@pytest.mark.parametrize("bodies", [[b"one"], [b"aa", b"bb"], [b"a", b"", b"ccc"]])
def test_the_frames_are_those_messages(
    bodies: list[bytes], topic: str, store: Host, born: Host
) -> None:
    records = StoredRecords(drafts(*bodies, topic=topic, born=born), store, 1 << 40)
    records.queue_offset = 9
    frames, table = records.encode(100, TIME_NS)
    ip_flags = (0x10 if born is V6 else 0) | (0x20 if store is V6 else 0)
    expected = [
        StoredMessage(topic, body, 2, 9 + n, (1 << 40) + 100 + n, born, store, 5,
                      TIME_NS // 1_000_000, "KEYS\x01k\x02", 1, 0x101 | ip_flags, 6, 7)
        for n, body in enumerate(bodies)
    ]  # fmt: skip
    assert list(decode_all(bytes(frames))) == expected
    assert bytes(frames) == b"".join(map(encode, expected))
    sizes = [len(encode(message)) for message in expected]
    if len(set(sizes)) == 1:
        assert (records.stride, table) == (sizes[0], None)
    else:
        assert records.stride == 0
        assert table is not None
        assert table.tolist() == [0, *(sum(sizes[: n + 1]) for n in range(len(sizes)))]
    assert (records.count, records.nbytes) == (len(bodies), sum(map(len, bodies)))
    assert records.physical_offset == (1 << 40) + 100
    assert records.store_ms == TIME_NS // 1_000_000


def test_too_long_properties_never_reach_a_commit() -> None:
    with pytest.raises(StorageError, match="32767"):
        StoredRecords([Draft("T", 0, b"", "é" * 16384)], V4, 0)


def test_a_copy_of_a_stored_message_has_all_but_its_place() -> None:
    stored = StoredMessage("T", b"body", 3, 4, 5, V4, V6, 6, 7, "KEYS\x01k\x02", 8, 9, 10, 11)
    assert Draft.of(stored) == Draft("T", 3, b"body", "KEYS\x01k\x02", 8, 9, 6, V4, 10, 11)


def one_by_one(messages: list[BatchedMessage], common: Draft, store: Host = V4) -> StoredRecords:
    """The messages of a batch as if each had come alone."""
    drafts = []
    for body, text, flag in messages:
        if text and not text.endswith("\x02"):
            text += "\x02"
        drafts.append(replace(common, body=body, properties=text + CLUSTER, flag=flag))
    return StoredRecords(drafts, store, 1 << 40)


def assert_alike(batch: Any, listed: StoredRecords) -> None:
    """What is stored of a batch is what its messages are, one by one."""
    batch.queue_offset = listed.queue_offset = 77
    (encoded, table), (expected, positions) = (
        each.encode(500, TIME_NS) for each in (batch, listed)
    )
    assert bytes(encoded) == bytes(expected)
    assert (table is None) == (positions is None) == bool(batch.stride)
    if table is not None and positions is not None:
        assert (table.tolist(), table.dtype) == (positions.tolist(), positions.dtype)
    for name in ("count", "nbytes", "stride", "physical_offset", "store_ms"):
        assert getattr(batch, name) == getattr(listed, name), name


# --- batches of any layout ------------------------------------------------------------------------


def assert_agreement(messages: list[BatchedMessage], store: Host = V4, topic: str = "T") -> None:
    common = replace(COMMON, topic=topic, sys_flag=1)
    sent = with_more(batch_body.parts(batch_body.encode(messages)), CLUSTER.encode())
    assert sent is not None
    mixed = MixedBatch(sent, common, store, 1 << 40)
    assert_alike(mixed, one_by_one(messages, common, store))


TEXT = st.lists(st.sampled_from(["KEYS", "WAIT", "\x01", "\x02", "é"]), max_size=5).map("".join)
MESSAGE = st.builds(BatchedMessage, st.binary(max_size=20), TEXT, st.integers(-5, 5))


@given(st.lists(MESSAGE, min_size=1, max_size=6))
def test_whatever_the_messages_are(messages: list[BatchedMessage]) -> None:
    assert_agreement(messages)


@pytest.mark.parametrize("store", [V4, V6])
@pytest.mark.parametrize("topic", ["T", "%RETRY%" + "x" * 200])
def test_addresses_and_topics_of_any_length(store: Host, topic: str) -> None:
    assert_agreement(
        [BatchedMessage(b"a", "KEYS\x01k"), BatchedMessage(b"bb", "TAGS\x01t")], store, topic
    )


def test_bytes_that_are_no_text_are_stored_as_the_long_way_stores_them() -> None:
    sent = with_more([(0, b"", b"KEYS\x01\xff")], b"more")
    assert sent == [(0, b"", "KEYS\x01\ufffd\x02more".encode())]


def test_properties_of_a_batch_that_become_too_long_are_refused() -> None:
    longest = b"x" * (properties.BYTES_MAX - len("\x02more"))
    assert with_more([(0, b"", longest)], b"more") is not None
    assert with_more([(0, b"", b""), (0, b"", longest + b"x")], b"more") is None


# --- the same by compiled code --------------------------------------------------------------------

compiled = pytest.mark.skipif(lane.COMPILED is None, reason=f"compiled lane: {lane.STATE}")


def stored(data: bytes, common: Draft, store: Host) -> Any:
    """The records of a batch body by compiled code; None if they are left to Python."""
    part = topic_part(common.topic.encode())
    return lane.stored_of(data, CLUSTER.encode(), part, host_bytes(common.born_host),
                          host_bytes(store), common.queue, common.sys_flag, common.born_ms,
                          common.reconsume_times, 1 << 40)  # fmt: skip


def agree(messages: list[BatchedMessage], common: Draft = COMMON, store: Host = V4) -> bool:
    """Whether compiled code takes them; if so, what is stored is what they say one by one."""
    records = stored(batch_body.encode(messages), common, store)
    if records is not None:
        assert records.largest == max(len(each.body) for each in messages)
        assert_alike(records, one_by_one(messages, common, store))
    return records is not None


@compiled
@pytest.mark.parametrize("store", [V4, V6])
@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("topic", ["T", "x" * 127, "%RETRY%" + "x" * 200])
@pytest.mark.parametrize("size", [0, 1, 128])
def test_compiled_code_stores_what_python_stores(
    size: int, topic: str, born: Host, store: Host
) -> None:
    for text in ("", "WAIT\x01true", "WAIT\x01true\x02", "KEYS\x01k%d\x02WAIT\x01true", "K"):
        messages = [
            BatchedMessage(bytes([65 + n]) * (size + n), text.replace("%d", str(n)), n)
            for n in range(8)
        ]
        assert agree(messages, replace(COMMON, topic=topic, born_host=born, sys_flag=1), store)


@compiled
@given(st.lists(MESSAGE, min_size=1, max_size=6))
def test_whatever_the_messages_are_by_compiled_code(messages: list[BatchedMessage]) -> None:
    assert agree(messages) == all(each.properties.isascii() for each in messages)


@compiled
def test_properties_that_become_too_long_are_left_to_python() -> None:
    longest = properties.BYTES_MAX - len(CLUSTER) - len("\x02")
    assert agree([BatchedMessage(b"x", "y" * longest)] * 6)
    assert not agree([BatchedMessage(b"x", "y" * (longest + 1))] * 6)


@compiled
def test_a_batch_that_would_fill_the_memory_is_left_to_python() -> None:
    messages = batch_body.encode([BatchedMessage(b"x")] * 5000)
    part = topic_part(b"T")
    assert lane.stored_of(messages, b"y" * 32_000, part, host_bytes(V4), host_bytes(V4), 0, 0, 0,
                          0, 0) is None  # fmt: skip


@compiled
@given(st.binary(max_size=300), st.integers(1, 8))
def test_garbage_is_left_to_python_or_read_alike(data: bytes, times: int) -> None:
    records = stored(data * times, COMMON, V4)
    if records is not None:
        assert records.count == len(batch_body.decode(data * times))
