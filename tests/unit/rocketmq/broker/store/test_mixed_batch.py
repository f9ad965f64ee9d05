"""A batch that is stored from its bytes is what its messages are, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.store.mixed_batch import MixedBatch, with_more
from penstock.rocketmq.broker.store.stored_records import StoredRecords
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import batch_body, properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage

V4, V6 = Host(bytes((10, 0, 0, 1)), 50000), Host(bytes(15) + b"\x01", 50001)
CLUSTER = "CLUSTER\x01DefaultCluster"
COMMON = Draft("T", 3, b"", "", 0, 1, 1700000000000, V4, 2)
TIME_NS = 1_700_000_000_123_456_789


def agree(messages: list[BatchedMessage], store: Host = V4, topic: str = "T") -> None:
    common = replace(COMMON, topic=topic)
    sent = with_more(batch_body.parts(batch_body.encode(messages)), CLUSTER.encode())
    assert sent is not None
    mixed = MixedBatch(sent, common, store, 1 << 40)
    drafts = []
    for body, text, flag in messages:
        if text and not text.endswith("\x02"):
            text += "\x02"
        drafts.append(replace(common, body=body, properties=text + CLUSTER, flag=flag))
    listed = StoredRecords(drafts, store, 1 << 40)
    mixed.queue_offset = listed.queue_offset = 77
    (encoded, table), (expected, positions) = (
        mixed.encode(500, TIME_NS),
        listed.encode(500, TIME_NS),
    )
    assert bytes(encoded) == bytes(expected)
    assert (table is None) == (positions is None) == bool(mixed.stride)
    if table is not None and positions is not None:
        assert (table.tolist(), table.dtype) == (positions.tolist(), positions.dtype)
    for name in ("topic", "count", "nbytes", "stride", "physical_offset", "store_ms"):
        assert getattr(mixed, name) == getattr(listed, name), name


@given(
    st.lists(
        st.builds(
            BatchedMessage,
            st.binary(max_size=20),
            st.lists(st.sampled_from(["KEYS", "WAIT", "\x01", "\x02", "é"]), max_size=5).map(
                "".join
            ),
            st.integers(-5, 5),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_the_messages_are(messages: list[BatchedMessage]) -> None:
    agree(messages)


@pytest.mark.parametrize("store", [V4, V6])
@pytest.mark.parametrize("topic", ["T", "%RETRY%" + "x" * 200])
def test_addresses_and_topics_of_any_length(store: Host, topic: str) -> None:
    agree([BatchedMessage(b"a", "KEYS\x01k"), BatchedMessage(b"bb", "TAGS\x01t")], store, topic)


def test_bytes_that_are_no_text_are_stored_as_the_long_way_stores_them() -> None:
    sent = with_more([(0, b"", b"KEYS\x01\xff")], b"more")
    assert sent == [(0, b"", "KEYS\x01\ufffd\x02more".encode())]


def test_properties_that_become_too_long_are_refused() -> None:
    longest = b"x" * (properties.BYTES_MAX - len("\x02more"))
    assert with_more([(0, b"", longest)], b"more") is not None
    assert with_more([(0, b"", b""), (0, b"", longest + b"x")], b"more") is None
