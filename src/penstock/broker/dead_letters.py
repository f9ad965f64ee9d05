"""Dead letters: which topic they go to, and the note of where they came from.

The note is in the log of the dead-letter topic, in the batch of its messages, so that it lives
exactly as long as they do.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from penstock.broker.channels.spent import SpentRange
from penstock.broker.dialects import nsq_view
from penstock.core.malformed import MALFORMED
from penstock.core.names import EPHEMERAL_SUFFIX, MAX_NAME_LENGTH, is_ephemeral
from penstock.storage.batch import Batch, Buffer

HAD_ALL_ATTEMPTS: Final = "max_attempts"


class Origins(msgspec.Struct, array_like=True):
    """The origins of the messages of a batch of dead letters: its note.

    ``ids`` and ``attempts`` have an entry for each message; their time is in their frames. Notes
    of earlier versions have no ``reason``, as there was just one.
    """

    topic: str
    channel: str
    ids: list[int]
    attempts: list[int]
    reason: str = HAD_ALL_ATTEMPTS


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Origins] = msgspec.msgpack.Decoder(Origins)


def encode_origins(origins: Origins) -> bytes:
    """The bytes of a batch's note."""
    return _encoder.encode(origins)


def decode_origins(note: Buffer) -> Origins | None:
    """Decode a batch's note; None without a note that this version knows."""
    try:
        return _decoder.decode(note) if len(note) else None
    except MALFORMED:
        return None


def are_dead_letters(batch: Batch) -> bool:
    """True if the messages of a batch are dead letters."""
    return decode_origins(batch.note) is not None


class DeadLetterBatch(NamedTuple):
    """Spent messages as they are read for a move: their NSQ frames, and their origins."""

    move: list[SpentRange]
    frames: list[memoryview]
    origins: Origins

    def add(self, batch: Batch, first: int, next_: int, attempts: int, id_base: int) -> int:
        """Put in messages of a batch; how many bytes that were."""
        batch = nsq_view(batch)
        self.move.append(SpentRange(first, next_, attempts))
        for offset in range(first, next_):
            self.frames.append(batch.slice(offset, offset + 1))
            self.origins.ids.append(id_base + offset)
            self.origins.attempts.append(attempts)
        return batch.position(next_) - batch.position(first)


def dead_letter_topic(pattern: str, topic: str) -> str:
    """The dead-letter topic that a pattern names for a topic: ``%s`` stands for its name.

    A name that would be longer than a topic's may be has the end of ``topic`` cut off: two topics
    may then share one, and their messages' origins still tell them apart. That of an #ephemeral
    topic is #ephemeral too.
    """
    if "%s" not in pattern:
        return pattern
    suffix = EPHEMERAL_SUFFIX if is_ephemeral(topic) or is_ephemeral(pattern) else ""
    stem = topic.removesuffix(EPHEMERAL_SUFFIX)
    rest = pattern.removesuffix(EPHEMERAL_SUFFIX).replace("%s", "", 1)
    room = MAX_NAME_LENGTH - len(suffix) - len(rest)
    return pattern.removesuffix(EPHEMERAL_SUFFIX).replace("%s", stem[: max(0, room)], 1) + suffix
