"""Places and times, written into stored messages."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all, encode
from penstock.rocketmq.protocol.messages.stamps import stamp

IPV4, IPV6 = Host(b"\x7f\x00\x00\x01", 10911), Host(bytes(range(16)), 1)


@pytest.mark.parametrize("born", [IPV4, IPV6])
@pytest.mark.parametrize("store", [IPV4, IPV6])
@pytest.mark.parametrize("sizes", [[3, 3, 3], [0, 700, 1], [5]])
def test_only_places_and_times_change(born: Host, store: Host, sizes: list[int]) -> None:
    messages = [
        StoredMessage("t", b"x" * size, 0, 0, 0, born, store, 111, 0, "KEYS\x01k\x02", 5)
        for size in sizes
    ]
    frames = [encode(message) for message in messages]
    buffer = bytearray(b"".join(frames))
    starts = np.cumsum([0, *map(len, frames)], dtype=np.uint32)[:-1]
    assert stamp(memoryview(buffer), starts, 7, 1 << 40, (3 << 40) + 9, 222) == sum(sizes)
    for number, message in enumerate(messages):
        message.queue, message.queue_offset = 7, (1 << 40) + number
        message.physical_offset, message.store_ms = (3 << 40) + 9 + number, 222
    found = list(decode_all(buffer))
    for message in found:
        message.sys_flag = 0
    assert found == messages
