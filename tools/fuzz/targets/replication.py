"""The messages between a primary and its followers, from a stranger or a broken network."""

from __future__ import annotations

from penstock.replication.messages import (
    VERSION,
    Batches,
    End,
    Fetch,
    File,
    FollowerTopic,
    Hello,
    JournalPiece,
    ReplicationError,
    decode_fetch,
    decode_parts,
    encode_fetch,
    encode_part,
)

from . import Target


def requests(data: bytes) -> None:
    """A request: refused with one line, or one that is sent as it came."""
    try:
        fetch = decode_fetch(data)
    except ReplicationError as error:
        assert "\n" not in str(error)
        return
    assert decode_fetch(encode_fetch(fetch)) == fetch


def answers(data: bytes) -> None:
    """An answer: refused, or parts whose bytes are those of the answer, and an end."""
    try:
        parts = list(decode_parts(data))
    except ReplicationError as error:
        assert "\n" not in str(error)
        return
    assert isinstance(parts[-1].head, End)
    assert sum(len(part.data) for part in parts) <= len(data)
    again = b"".join(
        [bytes(piece) for part in parts for piece in encode_part(part.head, part.data)]
    )
    assert [part.head for part in decode_parts(again)] == [part.head for part in parts]


_FETCH = Fetch(
    VERSION, 1, "h", 1, "r", [FollowerTopic("t", 7, 2, 9, "0", 40)], {"a": 1}, 100, "b:1"
)
_END = b"".join(map(bytes, encode_part(End("r", 1, False))))

TARGETS = {
    "replication requests": Target(
        requests, [encode_fetch(_FETCH)], [b"\x9a" * 40, b"\xdd\xff\xff\xff\xff", b"\xc0"]
    ),
    "replication answers": Target(
        answers,
        [
            b"".join(map(bytes, encode_part(Hello("r", "h", 1, {"t": (1, 2)})))) + _END,
            b"".join(map(bytes, encode_part(Batches("t", 7, 0, 1, 0), b"batch"))) + _END,
            b"".join(map(bytes, encode_part(File("nsqd.dat"), b"{}"))) + _END,
            b"".join(map(bytes, encode_part(JournalPiece("t", 7, "0", 0, 0), b"frames"))) + _END,
        ],
        [b"\xff" * 8, b"\0" * 16, _END],
    ),
}
