"""Messages for one channel of a topic alone: a note of their batch names it, the others pass by.

A dead letter that is sent back to the channel that gave it up comes so. Channels pass by when the
topic gives them the batch, and write that down with their progress: after a crash in between, the
messages come to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from penstock.broker.channels.channel import Channel
from penstock.core.malformed import MALFORMED
from penstock.storage.batch import Batch, Buffer


class DirectedNote(msgspec.Struct, array_like=True, tag="to"):
    """The note of a batch for one channel."""

    channel: str


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[DirectedNote] = msgspec.msgpack.Decoder(DirectedNote)


def directed_note(channel: str) -> bytes:
    """The note that directs a batch to this channel."""
    return _encoder.encode(DirectedNote(channel))


def pass_by_others(batches: Iterable[Batch], channels: Mapping[str, Channel]) -> None:
    """Let all channels but the one that a batch's note names pass it by; without a note, none."""
    for batch in batches:
        wanted = _wanted(batch.note) if batch.note else None
        if wanted is not None:
            for name, channel in channels.items():
                if name != wanted:
                    channel.pass_by(batch.first_offset, batch.next_offset)


def _wanted(note: Buffer) -> str | None:
    try:
        return _decoder.decode(note).channel
    except MALFORMED:  # a note of another kind
        return None
