"""What every kind of publish must keep, for a topic to make batches of it."""

from __future__ import annotations

import struct

import pytest

from penstock.broker.publish.batching import Staged, batches_of
from penstock.broker.publish.records import Records
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.memory_log import MemoryLog
from penstock.storage.queues.one_queue import OneQueue
from tests.unit.broker.conftest import BODY_AT, ignore


def mpub(*bodies: bytes) -> bytes:
    parts = [struct.pack(">i", len(body)) + body for body in bodies]
    return struct.pack(">i", len(bodies)) + b"".join(parts)


KINDS: dict[str, tuple[Records, list[bytes]]] = {
    "single": (Bodies.single(b"one"), [b"one"]),
    "empty": (Bodies.single(b""), [b""]),
    "equal": (Bodies.from_list([b"aa", b"bb"]), [b"aa", b"bb"]),
    "many equal": (Bodies.from_list([b"xyz"] * 40), [b"xyz"] * 40),
    "mixed": (Bodies.from_list([b"a", b"bb", b""]), [b"a", b"bb", b""]),
    "many mixed": (
        Bodies.from_list([b"x" * size for size in range(40)]),
        [b"x" * size for size in range(40)],
    ),
    "mpub": (Bodies.from_mpub(mpub(b"aa", b"bb", b"cc"), 100), [b"aa", b"bb", b"cc"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_those_of_the_bodies(kind: str) -> None:
    records, bodies = KINDS[kind]
    sizes = {len(body) for body in bodies}
    assert records.count == len(bodies)
    assert records.nbytes == sum(map(len, bodies))
    assert records.stride == (BODY_AT + sizes.pop() if len(sizes) == 1 else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_and_positions_fit_the_numbers(kind: str) -> None:
    records, _ = KINDS[kind]
    frames, positions = records.encode(1000, 5)
    assert len(frames) == records.nbytes + BODY_AT * records.count
    if records.stride:
        assert positions is None
    else:
        assert positions is not None
        assert len(positions) == records.count + 1
        assert (int(positions[0]), int(positions[-1])) == (0, len(frames))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_them_holds_their_bodies_and_ids(kind: str) -> None:
    records, bodies = KINDS[kind]
    (batch,) = batches_of([Staged(records, 0, ignore)], OneQueue(MemoryLog(1000)), 3, 1000, 5)
    frames = [bytes(batch.slice(offset, offset + 1)) for offset in range(3, batch.next_offset)]
    assert [frame[BODY_AT:] for frame in frames] == bodies
    assert [int(frame[18:BODY_AT], 16) for frame in frames] == list(range(1003, 1003 + len(bodies)))
