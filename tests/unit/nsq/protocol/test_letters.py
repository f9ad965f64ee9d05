from __future__ import annotations

import struct

from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.letters import Letters


def test_time_and_body_stay_id_and_attempts_are_new() -> None:
    first, _ = Bodies.single(b"one").encode(77, 1111)
    second, _ = Bodies.single(b"second").encode(99, 2222)
    worn = bytearray(second)
    struct.pack_into(">H", worn, 16, 5)
    letters = Letters([memoryview(first), memoryview(worn)], b"note")
    assert (letters.count, letters.nbytes, letters.stride, letters.note) == (2, 9, 0, b"note")
    frames, positions = letters.encode(1000, 3333)
    assert positions is not None
    assert positions.tolist() == [0, 37, 77]
    expected = [Bodies.single(b"one").encode(1000, 1111)[0],
                Bodies.single(b"second").encode(1001, 2222)[0]]  # fmt: skip
    assert bytes(frames) == b"".join(bytes(frame) for frame in expected)
    assert bytes(worn[16:18]) == b"\x00\x05", "the original is left alone"
