"""NSQ's batches from and to bodies."""

from __future__ import annotations

import pytest

from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.nsq.protocol.translation import batch_of, bodies
from penstock.storage.batch import Batch, Dialect

FIRST, FIRST_ID, TIME_NS = 100, 5100, 77


@pytest.mark.parametrize("given", [[b"one"], [b"aa", b"bb", b"cc"], [b"", b"b", b"cc"]])
def test_there_and_back(given: list[bytes]) -> None:
    source = Batch.build(FIRST, FIRST_ID, TIME_NS, len(given), 3, [b"xyz"] * len(given),
                         dialect=Dialect.ROCKETMQ, delay_ns=9, queue=4)  # fmt: skip
    batch = batch_of(source, given)
    assert (batch.dialect, batch.queue, batch.delay_ns, batch.first_offset, batch.count) == (
        Dialect.NSQ, 4, 9, FIRST, len(given),
    )  # fmt: skip
    batch.verify()
    end = FIRST + len(given)
    assert bodies(batch, FIRST, end) == given
    assert bodies(batch, end - 1, end) == given[-1:]
    reader = FrameReader()
    reader.receive_data(bytes(batch.frames))
    seen = [
        (message.timestamp_ns, message.attempts, message.id, message.body)
        for block in reader.events()
        if isinstance(block, MessageBlock)
        for message in block
    ]
    assert seen == [(77, 1, b"%016x" % (FIRST_ID + i), body) for i, body in enumerate(given)]


def test_bodies_of_a_published_batch() -> None:
    given = [b"%d" % number for number in range(50)]
    frames, table = Bodies.from_list(given).encode(FIRST_ID, TIME_NS)
    batch = Batch.build(FIRST, FIRST_ID, TIME_NS, 50, 0, [frames], table=table)
    assert bodies(batch, FIRST + 20, FIRST + 30) == given[20:30]
