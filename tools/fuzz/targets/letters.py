"""Dead letters: frames out of a log that are published once more, and the notes beside them."""

from __future__ import annotations

import struct

from penstock.broker.dead_letters import Origins, decode_origins, encode_origins
from penstock.nsq.protocol.dead_letters import DeadLetterFrames
from penstock.nsq.protocol.frames import BODY_AT, FrameReader, MessageBlock, message
from penstock.spark.read.origins import origins_in
from penstock.storage.batch import Batch

from . import Target

_PLACE = struct.Struct(">qHB")
FIRST_ID = 0x0123_4567_89AB_0000


def letters(data: bytes) -> None:
    """Each keeps its time and body, gets the next id and attempts 1; the note stays out of it."""
    frames, bodies, times = _frames(data)
    if not frames:
        return
    note = data[:100]
    made = DeadLetterFrames([memoryview(frame) for frame in frames], note)
    encoded, table = made.encode(FIRST_ID, 5)
    assert (made.count, made.nbytes) == (len(bodies), sum(map(len, bodies)))
    stored = Batch.build(0, FIRST_ID, 5, made.count, 0, [encoded], table=table, note=note)
    batch = Batch.parse(bytes(stored.raw))
    assert bytes(batch.note) == note
    found = []
    for offset in range(batch.count):
        reader = FrameReader()
        reader.receive_data(bytes(batch.slice(offset, offset + 1)))
        for block in reader.events():
            assert isinstance(block, MessageBlock)
            found += [(m.timestamp_ns, m.attempts, m.id, m.body) for m in block]
    assert found == [
        (time, 1, b"%016x" % (FIRST_ID + index), body)
        for index, (time, body) in enumerate(zip(times, bodies, strict=True))
    ]
    assert [len(frame) for frame in frames] == [BODY_AT + len(body) for body in bodies]


def _frames(data: bytes) -> tuple[list[bytes], list[bytes], list[int]]:
    """Frames as a log holds them: of times, attempts and sizes of bodies that ``data`` says."""
    frames: list[bytes] = []
    bodies: list[bytes] = []
    times: list[int] = []
    at = 0
    while at + _PLACE.size <= len(data):
        time, attempts, size = _PLACE.unpack_from(data, at)
        at += _PLACE.size
        body, at = data[at : at + size], at + size
        frames.append(message(time, attempts, b"%016x" % len(frames), body))
        bodies.append(body)
        times.append(time)
    return frames, bodies, times


def notes(data: bytes) -> None:
    """A batch's note, perhaps of another version: what it says, or nothing."""
    found = decode_origins(data)
    if found is not None:
        assert decode_origins(encode_origins(found)) == found
    count = len(found.ids) if found is not None else 1
    read = origins_in(data, count)
    if read is not None:
        assert found is not None
        assert read == (found.topic, found.channel, found.ids, found.attempts, found.reason)


_ORIGINS = Origins("t", "c", [FIRST_ID, FIRST_ID + 1], [3, 65535])

TARGETS = {
    "letters": Target(
        letters,
        [
            _PLACE.pack(7, 3, 5) + b"hello" + _PLACE.pack(-1, 65535, 0) + _PLACE.pack(9, 1, 200),
            b"".join(_PLACE.pack(n, n, 4) + b"same" for n in range(30)),
        ],
        [b"\0" * 8, b"\xff" * 8],
    ),
    "notes": Target(
        notes,
        [
            encode_origins(_ORIGINS),
            b"",
            b"\x96" + encode_origins(_ORIGINS)[1:] + b"\xc0\x91\x80",
        ],
        [b"\x91" * 40, b"\x91" * 2000, b"\x81\xa1a" * 500, b"\xa1\xff", b"\xdd\xff\xff\xff\xff",
         b"\xcf" + b"\xff" * 8, b"\xc0"],
    ),
}  # fmt: skip
