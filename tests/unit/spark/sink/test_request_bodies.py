"""Bodies of requests."""

from __future__ import annotations

import struct
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.nsq.protocol import encode
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.spark.sink.pieces import Piece
from penstock.spark.sink.request_bodies import batch_of, publish_body, staged_body
from tests.unit.spark.sink.making import piece

BODIES = [b"one", b"\x00" * 300, b"", b"three"]


def test_a_published_body_is_that_of_mpub() -> None:
    whole = piece(BODIES)
    assert publish_body(whole) == encode.multi_body(BODIES)
    assert publish_body(whole.slice(1, 3)) == encode.multi_body(BODIES[1:3])
    assert publish_body(whole.slice(3, 4)) == encode.multi_body(BODIES[3:])


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_staged_body_has_a_delay_each(kind: pa.DataType) -> None:
    whole = piece(BODIES, [0, 1, 2, (1 << 32) - 1])
    whole = Piece(whole.bodies.cast(kind), whole.rows, whole.delays).slice(1, 4)
    wanted = struct.pack(">I", 3)
    for delay, body in zip([1, 2, (1 << 32) - 1], BODIES[1:], strict=True):
        wanted += struct.pack(">II", len(body), delay) + body
    assert staged_body(whole) == wanted


TEXTED = [b"one", b"\x00" * 300, b"three"]
TEXTS = ["KEYS\x01k\x02", "", "a\x01" + "ü" * 9000 + "\x02"]


def test_a_batch_is_what_a_producer_of_rocketmq_sends() -> None:
    whole = replace(piece(TEXTED), properties=pa.array([text.encode() for text in TEXTS]))
    wanted = [BatchedMessage(*each) for each in zip(TEXTED, TEXTS, strict=True)]
    assert batch_of(whole) == batch_body.encode(wanted)
    assert batch_of(whole.slice(1, 3)) == batch_body.encode(wanted[1:])
    assert batch_of(whole.slice(2, 3)) == batch_body.encode(wanted[2:])
