"""From the broker's deliveries to the bytes that a consumer receives."""

from __future__ import annotations

import struct

import numpy as np

from penstock.broker.channels.consumer import Delivery
from penstock.broker.dialects import nsq_view
from penstock.storage.batch import Buffer

_ATTEMPTS_AT = 16
_attempts = struct.Struct(">H")


def frames_of(delivery: Delivery) -> Buffer:
    """The message frames of a delivery: a slice of the batch, copied only to tell more attempts."""
    batch, first, next_ = nsq_view(delivery.batch), delivery.first, delivery.next
    frames = batch.slice(first, next_)
    attempts = delivery.attempts
    if attempts == 1:
        return frames
    copy = bytearray(frames)
    if next_ - first == 1:
        _attempts.pack_into(copy, _ATTEMPTS_AT, attempts)
        return copy
    start = first - batch.first_offset
    positions = batch.positions()[start : start + next_ - first]
    places = positions - positions[0] + _ATTEMPTS_AT
    view = np.frombuffer(copy, np.uint8)
    view[places] = attempts >> 8
    view[places + 1] = attempts & 0xFF
    return copy
