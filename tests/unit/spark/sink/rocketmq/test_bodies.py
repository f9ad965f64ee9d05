"""Bodies of batch sends."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.spark.sink.rocketmq.bodies import batch_of
from tests.unit.spark.sink.making import piece

BODIES = [b"one", b"\x00" * 300, b"three"]
TEXTS = ["KEYS\x01k\x02", "", "a\x01" + "ü" * 9000 + "\x02"]


def test_it_is_what_a_producer_sends() -> None:
    whole = replace(piece(BODIES), properties=pa.array([text.encode() for text in TEXTS]))
    wanted = [BatchedMessage(*each) for each in zip(BODIES, TEXTS, strict=True)]
    assert batch_of(whole) == batch_body.encode(wanted)
    assert batch_of(whole.slice(1, 3)) == batch_body.encode(wanted[1:])
    assert batch_of(whole.slice(2, 3)) == batch_body.encode(wanted[2:])
