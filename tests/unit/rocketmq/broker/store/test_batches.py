"""Messages on their way into the log: encoded one by one, as one batch, or as a table of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.store import even_batch as module
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.store.even_batch import FEW, EvenBatch, encode_together, even_batch
from penstock.rocketmq.broker.store.mixed_batch import MixedBatch, with_more
from penstock.rocketmq.broker.store.stored_records import StoredRecords
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import batch_body, properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all, encode

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


def assert_alike(batch: EvenBatch | MixedBatch, listed: StoredRecords) -> None:
    """What is stored of a batch is what its messages are, one by one."""
    batch.queue_offset = listed.queue_offset = 77
    (encoded, table), (expected, positions) = (
        each.encode(500, TIME_NS) for each in (batch, listed)
    )
    assert bytes(encoded) == bytes(expected)
    assert (table is None) == (positions is None) == bool(batch.stride)
    if table is not None and positions is not None:
        assert (table.tolist(), table.dtype) == (positions.tolist(), positions.dtype)
    for name in ("topic", "count", "nbytes", "stride", "physical_offset", "store_ms"):
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


# --- batches of one layout ------------------------------------------------------------------------


@pytest.fixture(params=[0, module.PACKED_MAX], ids=["table", "packed"])
def packed_max(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways to encode a batch that is alone in its commit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PACKED_MAX", request.param)
        yield


both_ways = pytest.mark.usefixtures("packed_max")


def agree(messages: list[BatchedMessage], store: Host = V4) -> bool:
    """Whether it was of one layout; if so it must say what the messages say one by one."""
    data = batch_body.encode(messages)
    even = even_batch(data, replace(COMMON), CLUSTER.encode(), store, 1 << 40)
    if even is not None:
        assert_alike(even, one_by_one(messages, COMMON, store))
    return even is not None


@both_ways
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


@both_ways
@pytest.mark.parametrize(
    ("body", "text"),
    [(b"xx", "KEYS\x01k\x02WAIT\x01true"), (b"x", "KEYS\x01k\x02WAIT\x01tru\x02"),
     (b"xx", "KEYS\x01k\x02WAIT\x01tru")],
    ids=["another size", "another last sign", "a longer body"],
)  # fmt: skip
def test_other_layouts_are_left_to_others(body: bytes, text: str) -> None:
    messages = [BatchedMessage(b"x", "KEYS\x01k\x02WAIT\x01true")] * 6
    for place in (0, 3, 5):
        assert not agree([*messages[:place], BatchedMessage(body, text), *messages[place + 1 :]])


@both_ways
def test_few_or_with_long_properties_are_left_to_others() -> None:
    assert not agree([BatchedMessage(b"x", "KEYS\x01k")] * (FEW - 1))
    longest = properties.BYTES_MAX - len(CLUSTER) - len("\x02")
    assert agree([BatchedMessage(b"x", "y" * longest)] * 6)
    assert not agree([BatchedMessage(b"x", "y" * (longest + 1))] * 6)


def a_batch(number: int, queue: int, size: int = 8) -> tuple[EvenBatch, StoredRecords]:
    """One and the same batch in both forms, at its place in a queue."""
    messages = [
        BatchedMessage(bytes([65 + n]) * size, f"KEYS\x01{number:03}\x02WAIT\x01true", number)
        for n in range(FEW + number % 3)
    ]
    common = replace(COMMON, queue=queue)
    even = even_batch(batch_body.encode(messages), common, CLUSTER.encode(), V4, 1 << 40)
    assert even is not None
    listed = one_by_one(messages, common)
    even.queue_offset = listed.queue_offset = 1000 * number
    return even, listed


@both_ways
@pytest.mark.parametrize("bytes_max", [1, 300, module.TABLE_BYTES])
def test_batches_of_one_commit(bytes_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TABLE_BYTES", bytes_max)
    pairs = [a_batch(number, number % 4, 8 + number % 2) for number in range(12)]
    others = one_by_one([BatchedMessage(b"x")], COMMON)
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


LETTERS = st.lists(
    st.sampled_from(["KEYS", "WAIT", "AWAIT", "\x01", "\x02", "k", "true", "é"]), max_size=8
).map("".join)


@both_ways
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LETTERS, LETTERS, st.integers(0, 5), st.integers(0, 3))
def test_whatever_the_properties_are(text: str, odd: str, place: int, size: int) -> None:
    messages = [BatchedMessage(b"x" * size, text, 1) for _ in range(6)]
    messages[place] = BatchedMessage(b"y" * size, odd, 2)
    agree(messages)


@given(st.binary(max_size=300), st.integers(1, 8))
def test_garbage_is_left_to_others_or_read_alike(data: bytes, times: int) -> None:
    even = even_batch(data * times, replace(COMMON), CLUSTER.encode(), V4, 0)
    if even is not None:
        assert even.count == len(batch_body.decode(data * times))
