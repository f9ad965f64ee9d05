"""NSQ's messages as stored messages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.cli.shared.dialects import register_dialects
from penstock.nsq.protocol.bodies import Bodies
from penstock.rocketmq.broker.store import nsq_messages
from penstock.rocketmq.broker.store.nsq_messages import id_of
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode
from penstock.storage.batch import Batch

FIRST, FIRST_ID = 100, 0x0123456789ABCDEF
HOST = Host(b"\x7f\x00\x00\x01", 10911)


@pytest.fixture(autouse=True)
def _dialects() -> None:
    register_dialects()


def stored(*bodies: bytes, ms: int = 1_700_000_000_123) -> list[StoredMessage]:
    """All but the first of these, pulled."""
    records = Bodies.from_list(bodies)
    frames, table = records.encode(FIRST_ID, ms * 10**6 + 456)
    batch = Batch.build(FIRST, FIRST_ID, ms * 10**6 + 456, records.count, records.stride,
                        [frames], table=table)  # fmt: skip
    found = nsq_messages.frames(
        batch, FIRST + 1, batch.next_offset, topic="T", queue=3, queue_offset=41,
        physical=(5 << 40) | (FIRST + 1), host=HOST,
    )  # fmt: skip
    return [decode(frame)[0] for frame in found]


def test_a_slice() -> None:
    messages = stored(b"a", b"bb", b"ccc")
    assert [each.body for each in messages] == [b"bb", b"ccc"]
    assert [each.queue_offset for each in messages] == [41, 42]
    assert [each.physical_offset & 0xFFFF for each in messages] == [FIRST + 1, FIRST + 2]
    first = messages[0]
    assert (first.topic, first.queue, first.store_host, first.born_host) == ("T", 3, HOST, HOST)
    assert first.born_ms == first.store_ms == 1_700_000_000_123
    assert (first.flag, first.sys_flag, first.reconsume_times) == (0, 0, 0)
    assert properties.value_of(first.properties, properties.TAGS) is None


@pytest.mark.parametrize("when", ["2026-01-01T00:00:00", "2026-01-31T23:59:59", "2024-02-29T12:00"])
def test_the_key_holds_the_id_and_the_time(when: str) -> None:
    """Java's tools read the time from the 4 bytes from the tenth on."""
    moment = datetime.fromisoformat(when).replace(tzinfo=UTC)
    (message,) = stored(b"a", b"b", ms=int(moment.timestamp()) * 1000)
    key = properties.value_of(message.properties, properties.UNIQUE_KEY)
    assert key is not None
    assert len(key) == 32
    assert id_of(key) == FIRST_ID + 1
    of_month = moment - moment.replace(day=1, hour=0, minute=0, second=0)
    assert int.from_bytes(bytes.fromhex(key)[10:14]) == of_month.total_seconds() * 1000


@pytest.mark.parametrize("key", ["", "0" * 31, "0123456789ABCDEF0001000000000000", "x" * 32])
def test_other_keys(key: str) -> None:
    assert id_of(key) is None
