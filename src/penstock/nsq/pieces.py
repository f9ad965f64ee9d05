"""The division of messages into multi-publishes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeVar

PIECE_MESSAGES: Final = 1000
PIECE_BYTES: Final = 1024 * 1024


class _HasBody(Protocol):
    @property
    def body(self) -> bytes: ...


MessageT = TypeVar("MessageT", bound=_HasBody)


def pieces(messages: Sequence[MessageT], most: int) -> Iterator[Sequence[MessageT]]:
    """Messages in pieces of at most ``most``, and of 1 MiB unless one alone is longer."""
    begin = size = 0
    for place, message in enumerate(messages):
        full = place - begin == most or size + len(message.body) > PIECE_BYTES
        if full and place > begin:
            yield messages[begin:place]
            begin, size = place, 0
        size += len(message.body) + 4
    if begin < len(messages):
        yield messages[begin:]
