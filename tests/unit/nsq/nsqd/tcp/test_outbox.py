"""When buffered messages leave (NSQ spec 1.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

import numpy as np
import pytest

from penstock.broker.channels.consumer import Delivery
from penstock.nsq.nsqd.tcp.outbox import Outbox, frames_of
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.storage.batch import Batch

MILLISECOND = 10**6
FIRST = 100
EQUAL = [b"aaa", b"bbb", b"ccc", b"ddd"]
MIXED = [b"a", b"bb", b"ccc", b"dddd"]


class Transport:
    """Notes what is written, one entry a call."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, pieces: Iterable[bytes | memoryview]) -> None:
        self.writes.append(b"".join(pieces))


def outbox(size: int, timeout: int) -> tuple[Outbox, list[bytes]]:
    transport = Transport()
    return Outbox(cast(asyncio.Transport, transport), size, timeout), transport.writes


async def test_a_response_goes_out_at_once_and_takes_the_messages_along() -> None:
    box, writes = outbox(100, 0)
    box.send(b"OK")
    assert writes == [b"OK"]
    box.buffer([b"m1", b"m2"], 4, more_to_come=True)
    assert writes == [b"OK"]
    box.send(b"ERR")
    assert writes == [b"OK", b"m1m2ERR"]
    box.flush()
    assert len(writes) == 2


async def test_the_answers_of_one_commit_leave_together() -> None:
    box, writes = outbox(100, 0)
    box.answer(b"OK1", more_owed=True)
    box.answer(b"OK2", more_owed=True)
    assert writes == []
    box.answer(b"OK3", more_owed=False)
    assert writes == [b"OK1OK2OK3"]
    await asyncio.sleep(0)
    assert len(writes) == 1


async def test_an_answer_waits_for_others_only_until_the_loop_comes_round() -> None:
    box, writes = outbox(100, 0)
    for answer in (b"OK1", b"OK2"):
        box.answer(answer, more_owed=True)
        assert answer not in writes
        await asyncio.sleep(0)
    assert writes == [b"OK1", b"OK2"]


async def test_an_error_follows_the_answers_that_waited() -> None:
    box, writes = outbox(100, 0)
    box.answer(b"OK", more_owed=True)
    box.send(b"ERR")
    assert writes == [b"OKERR"]


async def test_a_full_buffer_leaves() -> None:
    box, writes = outbox(4, 0)
    box.buffer([b"m1"], 2, more_to_come=True)
    assert writes == []
    box.buffer([b"m2"], 2, more_to_come=True)
    assert writes == [b"m1m2"]


async def test_nothing_waits_for_a_client_that_takes_no_more() -> None:
    box, writes = outbox(100, 0)
    box.buffer([b"m1"], 2, more_to_come=False)
    assert writes == [b"m1"]


async def test_a_size_of_one_lets_every_write_through() -> None:
    box, writes = outbox(1, 0)
    box.buffer([b"m1"], 2, more_to_come=True)
    box.buffer([b"m2"], 2, more_to_come=True)
    assert writes == [b"m1", b"m2"]


async def test_the_timer_flushes_once_and_is_set_anew() -> None:
    box, writes = outbox(100, 10 * MILLISECOND)
    for body in (b"m1", b"m2"):
        box.buffer([body], 2, more_to_come=True)
    assert writes == []
    await asyncio.sleep(0.03)
    assert writes == [b"m1m2"]
    box.buffer([b"m3"], 2, more_to_come=True)
    await asyncio.sleep(0.03)
    assert writes == [b"m1m2", b"m3"]


async def test_a_flush_stops_the_timer() -> None:
    box, writes = outbox(100, 10 * MILLISECOND)
    box.buffer([b"m1"], 2, more_to_come=True)
    box.flush()
    box.buffer([b"m2"], 2, more_to_come=True)  # its own 10 ms start here
    assert writes == [b"m1"]


async def test_without_a_timeout_messages_wait_for_the_buffer() -> None:
    box, writes = outbox(100, 0)
    box.buffer([b"m1"], 2, more_to_come=True)
    await asyncio.sleep(0.02)
    assert writes == []


async def test_closing_drops_what_waits() -> None:
    box, writes = outbox(100, 5 * MILLISECOND)
    box.buffer([b"m1"], 2, more_to_come=True)
    box.close()
    await asyncio.sleep(0.02)
    assert writes == []


async def test_what_waits_goes_to_the_transport_it_was_meant_for() -> None:
    box, writes = outbox(100, 0)
    other = Transport()
    box.buffer([b"m1"], 2, more_to_come=True)
    box.use(cast(asyncio.Transport, other))
    box.send(b"OK")
    assert (writes, other.writes) == ([b"m1"], [b"OK"])


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
