"""Bodies of stored messages for readers of another dialect."""

from __future__ import annotations

import zlib

import pytest

from penstock.rocketmq.protocol.bodies import (
    BATCH_BYTES_MAX,
    BODY_BYTES_MAX,
    bodies,
    body_of,
    queue_offset,
)
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import BODY_LENGTH_AT
from tests.unit.rocketmq.protocol.stored import FIRST, IPV4, IPV6, batch_of, stored

TEXT = b"a text that is worth it " * 300
PACKED = zlib.compress(TEXT)


@pytest.mark.parametrize("born", [IPV4, IPV6])
@pytest.mark.parametrize("host", [IPV4, IPV6])
def test_any_hosts(born: Host, host: Host) -> None:
    assert body_of(stored(b"hello", 0, born, host))[0] == b"hello"
    assert body_of(stored(b"", 0, born, host))[0] == b""


@pytest.mark.parametrize("beyond", [1, 1 << 30])
def test_a_body_that_would_end_elsewhere_is_the_whole_frame(beyond: int) -> None:
    frame = stored(b"hello", 0, IPV4, IPV4)
    start = BODY_LENGTH_AT + 4
    for length in (-1, len(frame) - start + beyond):
        damaged = frame[:BODY_LENGTH_AT] + length.to_bytes(4, "big", signed=True) + frame[start:]
        assert body_of(damaged) == (damaged, 0)


@pytest.mark.parametrize(
    ("body", "sys_flag", "expected"),
    [
        (TEXT, 0, TEXT),
        (PACKED, 0, PACKED),
        (PACKED, 0x1, TEXT),
        (PACKED, 0x301, TEXT),
        (PACKED, 0x101, PACKED),  # LZ4
        (PACKED, 0x201, PACKED),  # ZSTD
        (b"no zlib at all", 0x1, b"no zlib at all"),
        (PACKED[:-1], 0x1, PACKED[:-1]),
        (b"", 0x1, b""),
    ],
)
def test_decompression(body: bytes, sys_flag: int, expected: bytes) -> None:
    batch = batch_of([stored(b"before"), stored(body, sys_flag), stored(b"behind")])
    assert bodies(batch, FIRST, FIRST + 3) == [b"before", expected, b"behind"]
    assert bodies(batch, FIRST + 1, FIRST + 2) == [expected]


@pytest.mark.parametrize(("nbytes", "opens"), [(BODY_BYTES_MAX, True), (BODY_BYTES_MAX + 1, False)])
def test_a_body_may_become_so_large(nbytes: int, opens: bool) -> None:
    packed = zlib.compress(bytes(nbytes))
    (body,) = bodies(batch_of([stored(packed, 0x1)]), FIRST, FIRST + 1)
    assert len(body) == (nbytes if opens else len(packed))


def test_a_batch_may_become_so_large() -> None:
    packed = zlib.compress(bytes(BODY_BYTES_MAX))
    count = BATCH_BYTES_MAX // BODY_BYTES_MAX
    batch = batch_of([stored(packed, 0x1)] * (count + 2))
    sizes = [len(body) for body in bodies(batch, FIRST, FIRST + count + 2)]
    assert sizes == [BODY_BYTES_MAX] * count + [len(packed)] * 2


@pytest.mark.parametrize("damage", [b"", b"short", stored(b"hello")[:-20], bytes(200)])
def test_what_is_no_stored_message_is_a_body(damage: bytes) -> None:
    if len(damage) == 200:
        assert body_of(damage) == (b"", 0)
    else:
        assert body_of(damage) == (damage, 0)


def test_a_batch_states_its_queue_offset() -> None:
    assert queue_offset(batch_of([stored(b"a"), stored(b"b")])) == 7
    assert queue_offset(batch_of([b"short"])) is None
