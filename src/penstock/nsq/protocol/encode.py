"""The commands a client sends, as bytes. Needs nothing but the standard library.

Lengths are big-endian 32-bit numbers; a command is one line ended by LF, some with a body after it.
Nothing is validated here: the server's answer is the authority, and tests want to send nonsense.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

MAGIC_V2 = b"  V2"
NOP = b"NOP\n"
CLS = b"CLS\n"

_length = struct.Struct(">I").pack


def _sized(body: bytes) -> bytes:
    return _length(len(body)) + body


def identify(json_body: bytes) -> bytes:
    """IDENTIFY with a JSON object already encoded."""
    return b"IDENTIFY\n" + _sized(json_body)


def auth(secret: bytes) -> bytes:
    """AUTH with the secret the auth server knows."""
    return b"AUTH\n" + _sized(secret)


def subscribe(topic: str, channel: str) -> bytes:
    """SUB: become a consumer of one channel."""
    return f"SUB {topic} {channel}\n".encode()


def publish(topic: str, body: bytes) -> bytes:
    """PUB: one message."""
    return b"PUB %b\n%b%b" % (topic.encode(), _length(len(body)), body)


def deferred_publish(topic: str, delay_ms: int, body: bytes) -> bytes:
    """DPUB: one message that channels hold back for ``delay_ms`` milliseconds."""
    return b"DPUB %b %d\n%b%b" % (topic.encode(), delay_ms, _length(len(body)), body)


def multi_publish(topic: str, bodies: Sequence[bytes]) -> bytes:
    """MPUB: many messages, all validated before any is queued."""
    return b"MPUB %b\n%b" % (topic.encode(), _sized(multi_body(bodies)))


def multi_body(bodies: Sequence[bytes]) -> bytes:
    """The body of MPUB without its leading total size; also HTTP's /mpub?binary=true."""
    # Filled by slices: no loop in Python over what may be thousands of bodies.
    parts = [b""] * (2 * len(bodies) + 1)
    parts[0] = _length(len(bodies))
    parts[1::2] = map(_length, map(len, bodies))
    parts[2::2] = bodies
    return b"".join(parts)


def ready(count: int) -> bytes:
    """RDY: how many messages may be in flight to this connection at once."""
    return b"RDY %d\n" % count


def finish(message_id: bytes) -> bytes:
    """FIN: this message is done."""
    return b"FIN %b\n" % message_id


def finish_all(message_ids: Iterable[bytes]) -> bytes:
    """The FINs of these messages, one at least."""
    return b"FIN " + b"\nFIN ".join(message_ids) + b"\n"


def requeue(message_id: bytes, delay_ms: int) -> bytes:
    """REQ: deliver this message again, ``delay_ms`` milliseconds from now."""
    return b"REQ %b %d\n" % (message_id, delay_ms)


def touch(message_id: bytes) -> bytes:
    """TOUCH: restart this message's time-out."""
    return b"TOUCH %b\n" % message_id
