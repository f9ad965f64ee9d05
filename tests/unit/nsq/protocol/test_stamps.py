"""Stamping frames gives what encoding them with the right ids and time would have given."""

from __future__ import annotations

import pytest

from penstock.broker.publish.commit import unplaced
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.stamps import stamp

FIRST_ID, TIME = 0x0123_4567_89AB_CDEF, 1_700_000_000_123_456_789


@pytest.mark.parametrize(
    "bodies",
    [
        [b"one"],
        [b"a", b"b"],
        [b"%05d" % number for number in range(1000)],
        [b"x" * (1 + number % 90) for number in range(1000)],
        [b"a", bytes(70_000), b"c"],
    ],
    ids=["one", "few", "even", "mixed", "large"],
)
def test_stamped_frames_are_those_of_the_ids_and_the_time(bodies: list[bytes]) -> None:
    records = Bodies.from_list(bodies)
    batch = unplaced(records, 0)
    frames, _ = records.encode(FIRST_ID, TIME)
    assert bytes(batch.frames) != bytes(frames)
    stamp(batch.frames, batch.stride or batch.positions()[:-1], FIRST_ID, TIME)
    assert bytes(batch.frames) == bytes(frames)
