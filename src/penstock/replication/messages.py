"""The messages between a follower and its primary, without I/O.

The follower asks once for each connection: a ``Fetch`` says what it has. Answers follow for as long
as the connection lasts, and the follower says with an ``Ack`` for each what it has then. An answer
is a run of parts, each a small head and perhaps bytes as the primary stores them; the last part is
an ``End``, so an answer that was cut short is recognised. Nothing depends on an earlier connection,
so either side may be started again, and an answer may be lost; one that comes late is refused.

Answers and acknowledgements have their length before them, a u32. A part, little endian::

    0   u32  length of the head
    4   u32  length of the bytes
    8   u64  checksum        xxh3_64 of head and bytes
    16       head            MessagePack, an array whose first item is the kind
             bytes
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec
from xxhash import xxh3_64, xxh3_64_intdigest

from penstock.core.errors import PenstockError
from penstock.core.malformed import MALFORMED
from penstock.storage.batch import Buffer

VERSION: Final = 2
"""The version of these messages; a node refuses another one's."""
TOPICS_MAX: Final = 100_000
"""The most topics that a request may name."""
ADDRESS_MAX: Final = 300
ANSWER_MAX: Final = 512 * 1024 * 1024
"""Bytes of an answer: a batch comes whole, as do the small files; it is otherwise far smaller."""
ACK_MAX: Final = 32 * 1024 * 1024
"""Bytes of an acknowledgement, which may name all topics."""
_PREFIX = struct.Struct("<IIQ")
_LENGTH = struct.Struct("<I")


class ReplicationError(PenstockError):
    """A message between nodes that cannot be used, or a copy that must not go on."""


class FollowerTopic(msgspec.Struct, array_like=True, frozen=True):
    """A topic as the follower has it.

    ``log`` is the id base, the identity of the log; ``next`` the offset that comes next, and
    ``kept`` the one up to which it keeps messages as its durability says. ``mark`` is the checksum
    of the last batch, to be compared, or 0. ``token`` and ``position`` name the
    place in the primary's journal up to which it was copied.
    """

    topic: str
    log: int
    next: int
    mark: int
    token: str
    position: int
    kept: int = 0


class Fetch(msgspec.Struct, array_like=True):
    """A follower's request, by number; ``run`` is the primary's that it knows, empty at first.

    ``files`` are checksums of the small files that it has, by name.
    """

    version: int
    number: int
    history: str
    epoch: int
    run: str
    held: Annotated[list[FollowerTopic], msgspec.Meta(max_length=TOPICS_MAX)]
    files: dict[str, int]
    nbytes: int
    """The most bytes of messages in an answer, roughly."""
    address: Annotated[str, msgspec.Meta(max_length=ADDRESS_MAX)] = ""
    """The follower's own HTTP address, ``host:port``, which can be asked for its role."""
    is_synced: bool = False
    """True if all that it has is on stable storage there."""


class Ack(msgspec.Struct, array_like=True):
    """A follower's word that it has taken one more answer; its numbers continue the request's.

    ``kept`` is what has changed since its last word: by topic the log, and the offset up to which
    it keeps messages.
    """

    number: int
    kept: Annotated[dict[str, tuple[int, int]], msgspec.Meta(max_length=TOPICS_MAX)]


class _Version(msgspec.Struct, array_like=True):
    """The part of a request that all versions have."""

    version: int


class Hello(msgspec.Struct, array_like=True, tag="h", frozen=True):
    """The primary is another run than the follower knows: nothing else is in this answer, and it
    is the last.

    ``fork`` is where its epoch began: by topic the log and the offset up to which it has what the
    epoch before had.
    """

    run: str
    history: str
    epoch: int
    fork: dict[str, tuple[int, int]] = {}


class File(msgspec.Struct, array_like=True, tag="f", frozen=True):
    """A small file of the data path, whole; the bytes are its content."""

    name: str


class Gone(msgspec.Struct, array_like=True, tag="g", frozen=True):
    """The primary does not have this log: it was deleted, and perhaps another one was made."""

    topic: str
    log: int


class Diverged(msgspec.Struct, array_like=True, tag="d", frozen=True):
    """The follower's log does not continue into the primary's, which ends at ``end``."""

    topic: str
    log: int
    end: int


class JournalPiece(msgspec.Struct, array_like=True, tag="j", frozen=True):
    """Whole frames of a topic's journal, those from ``position`` on; behind them are
    ``nbytes_left`` more. Those from 0 on replace what the follower has, once all have come.
    """

    topic: str
    log: int
    token: str
    position: int
    nbytes_left: int


class Batches(msgspec.Struct, array_like=True, tag="b", frozen=True):
    """Whole batches as stored. The primary's log is ``[start, end)``; behind these it has about
    ``nbytes_left`` more bytes.

    ``queues`` is told with the beginning of the log, if it has several queues: by queue the first
    queue offset that is kept. The log itself does not tell how many messages are gone of each.
    """

    topic: str
    log: int
    start: int
    end: int
    nbytes_left: int
    queues: dict[int, int] | None = None


class End(msgspec.Struct, array_like=True, tag="e", frozen=True):
    """The end of an answer of this run; ``number`` is that of the follower's last word before it.

    ``more`` says that there was no room for all that is new, ``waited_ns`` how long after that
    word the answer was made. ``acked`` copies have whatever this node acknowledges, of
    ``copies`` that follow it; 0 if it may acknowledge without any.
    """

    run: str
    number: int
    more: bool
    waited_ns: int = 0
    acked: int = 0
    copies: int = 0


Head: TypeAlias = Hello | File | Gone | Diverged | JournalPiece | Batches | End

_encoder = msgspec.msgpack.Encoder()
_head_decoder: msgspec.msgpack.Decoder[Head] = msgspec.msgpack.Decoder(Head)
_fetch_decoder = msgspec.msgpack.Decoder(Fetch)
_version_decoder = msgspec.msgpack.Decoder(_Version)
_ack_decoder = msgspec.msgpack.Decoder(Ack)


class Part(NamedTuple):
    """A part of an answer."""

    head: Head
    data: memoryview


def encode_fetch(fetch: Fetch) -> bytes:
    """The body of a request."""
    return _encoder.encode(fetch)


def decode_fetch(body: bytes) -> Fetch:
    """A request. Raises ReplicationError."""
    try:
        version = _version_decoder.decode(body).version
        if version != VERSION:
            raise ReplicationError(
                f"a follower of another version of Penstock: its messages are of version "
                f"{version}, ours of {VERSION}; run the same version at both nodes"
            )
        return _fetch_decoder.decode(body)
    except MALFORMED as error:
        raise ReplicationError(f"no request of a follower: {error}") from error


def encode_ack(ack: Ack) -> bytes:
    """An acknowledgement, with its length before it."""
    return b"".join(framed([_encoder.encode(ack)]))


def decode_ack(data: Buffer) -> Ack:
    """An acknowledgement. Raises ReplicationError."""
    try:
        return _ack_decoder.decode(data)
    except MALFORMED as error:
        raise ReplicationError(f"no acknowledgement of a follower: {error}") from error


def framed(pieces: list[Buffer]) -> list[Buffer]:
    """The pieces of a message, with its length before them."""
    return [_LENGTH.pack(sum(map(len, pieces))), *pieces]


class Frames:
    """A splitter of what comes over a connection into messages of ``nbytes_max`` or less."""

    def __init__(self, nbytes_max: int) -> None:
        self._nbytes_max = nbytes_max
        self._parts: list[bytes] = []
        self._size = 0
        self._wanted = _LENGTH.size
        """The bytes with which there is more to see."""

    def feed(self, data: bytes) -> list[memoryview]:
        """The messages that are whole with this. Raises ReplicationError for one too long."""
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return []
        view = memoryview(b"".join(self._parts) if len(self._parts) > 1 else data)
        found: list[memoryview] = []
        self._wanted = _LENGTH.size
        while len(view) >= _LENGTH.size:
            [length] = _LENGTH.unpack_from(view)
            if length > self._nbytes_max:
                raise ReplicationError(f"a message of {length} bytes")
            end = _LENGTH.size + length
            if end > len(view):
                self._wanted = end
                break
            found.append(view[_LENGTH.size : end])
            view = view[end:]
        self._parts = [bytes(view)] if len(view) else []
        self._size = len(view)
        return found


def encode_part(head: Head, *data: Buffer) -> list[Buffer]:
    """The pieces of a part; the data is not copied."""
    encoded = _encoder.encode(head)
    checksum = xxh3_64(encoded)
    for piece in data:
        checksum.update(piece)
    prefix = _PREFIX.pack(len(encoded), sum(map(len, data)), checksum.intdigest())
    return [prefix + encoded, *data]


def decode_parts(answer: Buffer) -> Iterator[Part]:
    """The parts of an answer, the last of which is its end. Raises ReplicationError."""
    view = memoryview(answer)
    position = 0
    head: Head | None = None
    while position < len(view):
        if len(view) - position < _PREFIX.size:
            raise ReplicationError("an answer that is cut short")
        head_length, length, checksum = _PREFIX.unpack_from(view, position)
        begin = position + _PREFIX.size
        start = begin + head_length
        position = start + length
        # Checked before the checksum: slices of a view end silently where the view does.
        if position > len(view):
            raise ReplicationError("an answer that is cut short")
        if xxh3_64_intdigest(view[begin:position]) != checksum:
            raise ReplicationError("an answer that was damaged on the way")
        try:
            head = _head_decoder.decode(view[begin:start])
        except MALFORMED as error:
            raise ReplicationError(f"an answer with a part of an unknown kind: {error}") from error
        yield Part(head, view[start:position])
    if not isinstance(head, End):
        raise ReplicationError("an answer without an end")
