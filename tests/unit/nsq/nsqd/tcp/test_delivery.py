from __future__ import annotations

import numpy as np
import pytest

from penstock.broker.channels.consumer import Delivery
from penstock.nsq.nsqd.tcp.delivery import frames_of
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.storage.batch import Batch

FIRST = 100
EQUAL = [b"aaa", b"bbb", b"ccc", b"ddd"]
MIXED = [b"a", b"bb", b"ccc", b"dddd"]


def batch_of(bodies: list[bytes]) -> Batch:
    records = Bodies.from_list(bodies)
    frames, positions = records.encode(FIRST + 5000, 77)
    table = None if positions is None else np.asarray(positions, np.uint32)
    return Batch.build(FIRST, FIRST + 5000, 77, records.count, records.stride, [frames],
                       table=table, delay_ns=0)  # fmt: skip


def seen(frames: bytes) -> list[tuple[int, int, bytes, bytes]]:
    """Timestamp, attempts, id and body of each frame."""
    reader = FrameReader()
    reader.receive_data(frames)
    return [
        (message.timestamp_ns, message.attempts, message.id, message.body)
        for block in reader.events()
        if isinstance(block, MessageBlock)
        for message in block
    ]


@pytest.mark.parametrize("bodies", [EQUAL, MIXED])
@pytest.mark.parametrize("attempts", [1, 2, 300, 65535])
@pytest.mark.parametrize(("first", "next_"), [(0, 4), (1, 3), (2, 3), (3, 4)])
def test_a_part_of_a_batch(bodies: list[bytes], attempts: int, first: int, next_: int) -> None:
    batch = batch_of(bodies)
    before = bytes(batch.raw)
    frames = frames_of(Delivery(batch, FIRST + first, FIRST + next_, attempts))
    assert seen(bytes(frames)) == [
        (77, attempts, b"%016x" % (FIRST + 5000 + place), bodies[place])
        for place in range(first, next_)
    ]
    assert bytes(batch.raw) == before  # other consumers get the same bytes


def test_the_first_delivery_copies_nothing() -> None:
    batch = batch_of(EQUAL)
    frames = frames_of(Delivery(batch, FIRST, FIRST + 2, 1))
    assert isinstance(frames, memoryview)
    assert frames.obj is batch.frames.obj
