"""A batch as a table of bytes is what the same batch is message by message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.rocketmq.broker.store import even_batch as module
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.store.even_batch import FEW, EvenBatch, encode_together, even_batch
from penstock.rocketmq.broker.store.stored_records import StoredRecords
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import batch_body, properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage

V4, V6 = Host(bytes((10, 0, 0, 1)), 50000), Host(bytes(15) + b"\x01", 50001)
CLUSTER = "CLUSTER\x01DefaultCluster"
COMMON = Draft("T", 3, b"", "", 0, 0, 1700000000000, V4, 2)
TIME_NS = 1_700_000_000_123_456_789


def one_by_one(messages: list[BatchedMessage], store: Host = V4) -> StoredRecords:
    drafts = []
    for body, text, flag in messages:
        if text and not text.endswith("\x02"):
            text += "\x02"
        drafts.append(replace(COMMON, body=body, properties=text + CLUSTER, flag=flag))
    return StoredRecords(drafts, store, 1 << 40)


@pytest.fixture(params=[0, module.PACKED_MAX], ids=["table", "packed"], autouse=True)
def packed_max(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways to encode a batch that is alone in its commit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PACKED_MAX", request.param)
        yield


def agree(messages: list[BatchedMessage], store: Host = V4) -> bool:
    """Whether it was of one layout; if so it must say what the messages say one by one."""
    data = batch_body.encode(messages)
    even = even_batch(data, replace(COMMON), CLUSTER.encode(), store, 1 << 40)
    if even is None:
        return False
    listed = one_by_one(messages, store)
    even.queue_offset = listed.queue_offset = 77
    encoded, table = even.encode(500, TIME_NS)
    expected, positions = listed.encode(500, TIME_NS)
    assert bytes(encoded) == bytes(expected)
    assert table is positions is None
    for name in ("topic", "count", "nbytes", "stride", "physical_offset", "store_ms"):
        assert getattr(even, name) == getattr(listed, name), name
    return True


@pytest.mark.parametrize("store", [V4, V6])
@pytest.mark.parametrize("size", [0, 1, 128])
@pytest.mark.parametrize(
    "text",
    ["", "WAIT\x01true", "WAIT\x01true\x02", "KEYS\x01k%d\x02WAIT\x01true", "KEYS\x01k%d\x02",
     "UNIQ_KEY\x017F%d\x02WAIT\x01true\x02TAGS\x01A", "WAIT\x01false\x02KEYS\x01k%d\x02"],
)  # fmt: skip
def test_messages_of_one_layout(text: str, size: int, store: Host) -> None:
    messages = [
        BatchedMessage(bytes([65 + n]) * size, text.replace("%d", str(n)), n) for n in range(8)
    ]
    assert agree(messages, store)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (BatchedMessage(b"xx", "KEYS\x01k\x02WAIT\x01true"), "another size"),
        (BatchedMessage(b"x", "KEYS\x01k\x02WAIT\x01tru\x02"), "another last sign"),
        (BatchedMessage(b"xx", "KEYS\x01k\x02WAIT\x01tru"), "a longer body"),
    ],
)
def test_other_layouts_are_left_to_others(change: BatchedMessage, what: str) -> None:
    messages = [BatchedMessage(b"x", "KEYS\x01k\x02WAIT\x01true")] * 6
    for place in (0, 3, 5):
        assert not agree([*messages[:place], change, *messages[place + 1 :]]), what


def test_few_are_left_to_others() -> None:
    assert not agree([BatchedMessage(b"x", "KEYS\x01k")] * (FEW - 1))


def test_properties_that_become_too_long_are_left_to_others() -> None:
    longest = properties.BYTES_MAX - len(CLUSTER) - len("\x02")
    assert agree([BatchedMessage(b"x", "y" * longest)] * 6)
    assert not agree([BatchedMessage(b"x", "y" * (longest + 1))] * 6)


def a_batch(number: int, queue: int, size: int = 8) -> tuple[EvenBatch, StoredRecords]:
    """One and the same batch in both forms, at its place in a queue."""
    messages = [
        BatchedMessage(bytes([65 + n]) * size, f"KEYS\x01{number:03}\x02WAIT\x01true", number)
        for n in range(FEW + number % 3)
    ]
    data = batch_body.encode(messages)
    even = even_batch(data, replace(COMMON, queue=queue), CLUSTER.encode(), V4, 1 << 40)
    assert even is not None
    listed = one_by_one(messages)
    for draft in listed._drafts:
        draft.queue = queue
    even.queue_offset = listed.queue_offset = 1000 * number
    return even, listed


@pytest.mark.parametrize("bytes_max", [1, 300, module.TABLE_BYTES])
def test_batches_of_one_commit(bytes_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TABLE_BYTES", bytes_max)
    pairs = [a_batch(number, number % 4, 8 + number % 2) for number in range(12)]
    others = one_by_one([BatchedMessage(b"x")])
    places = [(even, 5000 + 10 * number) for number, (even, _) in enumerate(pairs)]
    encode_together([*places[:5], (others, 77), *places[5:]], TIME_NS)
    for (even, first_id), (_, listed) in zip(places, pairs, strict=True):
        expected, _ = listed.encode(first_id, TIME_NS)
        assert bytes(even.encode(first_id, TIME_NS)[0]) == bytes(expected)
        assert even.physical_offset == listed.physical_offset
        assert even.store_ms == listed.store_ms


def test_a_table_has_properties_at_one_place() -> None:
    """An address of IPv6 takes 12 bytes more, which the properties of another batch may have."""
    messages = [BatchedMessage(bytes([65 + n]) * 9, f"KEYS\x01k{n}\x02", n) for n in range(8)]
    data = batch_body.encode(messages)
    pairs = []
    for host, shared in ((V4, "MORE\x01123456\x02" + CLUSTER), (V6, CLUSTER)):
        even = even_batch(data, replace(COMMON, born_host=host), shared.encode(), V4, 1 << 40)
        assert even is not None
        drafts = [replace(COMMON, body=body, properties=text + shared, flag=flag, born_host=host)
                  for body, text, flag in messages]  # fmt: skip
        pairs.append((even, StoredRecords(drafts, V4, 1 << 40)))
    assert len({even.stride for even, _ in pairs}) == 1
    encode_together([(even, 5000) for even, _ in pairs], TIME_NS)
    for even, listed in pairs:
        assert bytes(even.encode(5000, TIME_NS)[0]) == bytes(listed.encode(5000, TIME_NS)[0])


LETTERS = st.sampled_from(["KEYS", "WAIT", "AWAIT", "\x01", "\x02", "k", "true", "é"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(LETTERS, max_size=8).map("".join),
    st.lists(LETTERS, max_size=8).map("".join),
    st.integers(0, 5),
    st.integers(0, 3),
)
def test_whatever_the_properties_are(text: str, odd: str, place: int, size: int) -> None:
    messages = [BatchedMessage(b"x" * size, text, 1) for _ in range(6)]
    messages[place] = BatchedMessage(b"y" * size, odd, 2)
    agree(messages)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300), st.integers(1, 8))
def test_garbage_is_left_to_others_or_read_alike(data: bytes, times: int) -> None:
    even = even_batch(data * times, replace(COMMON), CLUSTER.encode(), V4, 0)
    if even is not None:
        assert even.count == len(batch_body.decode(data * times))
