"""What the load generators send: prebuilt bytes, the same ones to every server.

Bodies are text as services write it, half of it random, so that a compression has honest work.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

SEED = 20240229


def sizes(mixed: bool, count: int, size: int) -> list[int]:
    """Body sizes: all equal, or spread evenly over a tenth to the double, seeded."""
    if not mixed:
        return [size] * count
    rng = random.Random(SEED)
    return [rng.randint(max(1, size // 10), size * 2) for _ in range(count)]


def json_bodies(lengths: Sequence[int]) -> list[bytes]:
    """Different JSON-like bodies of these lengths; none holds a line end."""
    chance = random.Random(SEED)
    bodies = []
    for number, length in enumerate(lengths):
        words = " ".join(f"{chance.getrandbits(32):x}" for _ in range(length // 9))
        body = f'{{"seq":{number},"user":{chance.getrandbits(20)},"text":"{words}'.encode()
        bodies.append(body.ljust(length, b".")[:length])
    return bodies


def mpub(topic: str, bodies: Sequence[bytes]) -> bytes:
    """One MPUB command."""
    body = _counted(bodies)
    return b"MPUB %s\n" % topic.encode() + struct.pack(">i", len(body)) + body


def pub(topic: str, body: bytes) -> bytes:
    """One PUB command."""
    return b"PUB %s\n" % topic.encode() + struct.pack(">i", len(body)) + body


def http_pub(topic: str, body: bytes) -> bytes:
    """One POST /pub of a keep-alive connection."""
    return _post(f"/pub?topic={topic}", body)


def http_mpub(topic: str, bodies: Sequence[bytes], binary: bool) -> bytes:
    """One POST /mpub: a body a line, or each behind its size."""
    if binary:
        return _post(f"/mpub?topic={topic}&binary=true", _counted(bodies))
    return _post(f"/mpub?topic={topic}", b"\n".join(bodies))


def _post(target: str, body: bytes) -> bytes:
    head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _counted(bodies: Sequence[bytes]) -> bytes:
    parts = [struct.pack(">i", len(bodies))]
    parts += [struct.pack(">i", len(body)) + body for body in bodies]
    return b"".join(parts)
