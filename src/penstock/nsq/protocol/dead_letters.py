"""Messages that are published with a note: dead letters, and letters that go back.

Dead letters keep their time and their body; id and attempts are new. Where they came from is their
note, and that of a letter that goes back is the channel that it goes to.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from penstock.core.ids import format_id
from penstock.nsq.protocol.bodies import Bodies, Encoded
from penstock.nsq.protocol.frames import BODY_AT

_ATTEMPTS_AT = 16
_ID_AT = 18
_attempts = struct.Struct(">H")


class NotedBodies:
    """Bodies as one batch with a note."""

    __slots__ = ("_bodies", "count", "nbytes", "note", "stride")

    dialect: ClassVar[int] = 0

    def __init__(self, bodies: Bodies, note: bytes) -> None:
        self._bodies = bodies
        self.count = bodies.count
        self.nbytes = bodies.nbytes
        # Records with a note have none, see ``broker.publish.records``.
        self.stride = 0
        self.note = note

    def encode(self, first_id: int, timestamp_ns: int) -> Encoded:
        """The frames of the bodies, and their positions."""
        frames, positions = self._bodies.encode(first_id, timestamp_ns)
        if positions is None:  # all of one size
            size = self._bodies.stride
            positions = np.arange(0, (self.count + 1) * size, size, dtype=np.uint32)
        return frames, positions


class DeadLetterFrames:
    """Message frames as a log holds them, to be published as one batch with a note."""

    __slots__ = ("_frames", "count", "nbytes", "note", "stride")

    dialect: ClassVar[int] = 0

    def __init__(self, frames: Sequence[memoryview], note: bytes) -> None:
        self._frames = frames
        self.count = len(frames)
        self.nbytes = sum(len(frame) - BODY_AT for frame in frames)
        # Records with a note have none, see ``broker.publish.records``.
        self.stride = 0
        self.note = note

    def encode(self, first_id: int, timestamp_ns: int) -> Encoded:
        """The frames with their own time stamps, consecutive ids and attempts 1; their positions.

        ``timestamp_ns`` is the time of the batch alone.
        """
        encoded = bytearray()
        positions = np.zeros(self.count + 1, np.uint32)
        for index, frame in enumerate(self._frames):
            start = len(encoded)
            encoded += frame
            # Delivery begins again in the dead-letter topic; the attempts before are in the note.
            _attempts.pack_into(encoded, start + _ATTEMPTS_AT, 1)
            encoded[start + _ID_AT : start + BODY_AT] = format_id(first_id + index)
            positions[index + 1] = len(encoded)
        return memoryview(encoded), positions
