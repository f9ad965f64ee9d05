from __future__ import annotations

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.broker.store.stored_records import StoredRecords
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all, encode

V4, V6 = Host(bytes((10, 0, 0, 1)), 50000), Host(bytes(15) + b"\x01", 50001)
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
