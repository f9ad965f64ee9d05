"""The checksum of a table's file, as its last member: ``"checksum":"<16 hex digits of xxh3_64>"``.

Java's files have none, so a flipped bit in the name of a group passes for another group. Java's
broker ignores the member when it reads the file, and writes the file without it.
"""

from __future__ import annotations

import re
from typing import Final

from xxhash import xxh3_64_hexdigest

MEMBER: Final = "checksum"
_SEAL: Final = re.compile(rb',?"checksum":"([0-9a-f]{16})"\}\s*\Z')


def sealed(data: bytes) -> bytes:
    """A JSON object, compact and with no member of this name, with its checksum."""
    comma = b"" if data == b"{}" else b","
    digest = xxh3_64_hexdigest(data).encode()
    return b'%s%s"checksum":"%s"}' % (data[:-1], comma, digest)


def is_broken(data: bytes) -> bool:
    """True if the content differs from that of which its checksum was computed."""
    seal = _SEAL.search(data)
    if seal is None:
        return False
    return xxh3_64_hexdigest(data[: seal.start()] + b"}").encode() != seal[1]
