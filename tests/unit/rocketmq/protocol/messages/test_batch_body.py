"""Bodies of batch sends."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage

GOLDEN = bytes.fromhex(
    "00000033 00000000 00000000 00000000 00000001 62 001C 4B455953016B31 02 574149540174727565 02"
    "54414753 01 54616741 02"
)
messages = st.builds(
    BatchedMessage, st.binary(max_size=20), st.just("KEYS\x01k\x02"), st.integers(-5, 5)
)


def test_golden_bytes() -> None:
    one = BatchedMessage(b"b", "KEYS\x01k1\x02WAIT\x01true\x02TAGS\x01TagA\x02")
    assert batch_body.encode([one]) == GOLDEN
    assert batch_body.decode(GOLDEN) == [one]


@given(st.lists(messages, min_size=1, max_size=5))
def test_round_trips_and_every_cut(batch: list[BatchedMessage]) -> None:
    data = batch_body.encode(batch)
    assert batch_body.decode(data) == batch
    whole = [len(batch_body.encode(batch[:count])) for count in range(1, len(batch) + 1)]
    for end in range(len(data)):
        if end in whole:
            assert batch_body.decode(data[:end]) == batch[: whole.index(end) + 1]
        else:
            with pytest.raises(BodyError):
                batch_body.decode(data[:end])


@given(st.binary(max_size=60))
def test_garbage_raises_nothing_else(data: bytes) -> None:
    with contextlib.suppress(BodyError):
        batch_body.decode(data)


def test_too_long() -> None:
    with pytest.raises(ValueError, match="32767"):
        batch_body.encode([BatchedMessage(b"", "x" * 32768)])
