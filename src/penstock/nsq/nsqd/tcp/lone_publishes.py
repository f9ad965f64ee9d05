"""Publishes of one message that come alone, found without the parser: most producers send one and
wait for its OK.

The line of a PUB or MPUB is known from the connection's publish to that topic before, which the
parser has checked. So it is enough to see that a read is that line and one message; the parser
would come to the same.
"""

from __future__ import annotations

import struct
from typing import Final

LONE_BYTES_MAX: Final = 64 * 1024
"""The largest message to look for; more seldom come with one read."""
LINES_MAX: Final = 64
"""The most lines that are known of one connection."""
# The command, a blank, a name of 64 bytes and the LF are 70 at most.
_LINE_BYTES_MAX: Final = 80

# What stands between line and body: the body's size; or the size of all, the count and the body's.
_PUB = struct.Struct(">I")
_MPUB = struct.Struct(">III")

_Known = tuple[str, str, struct.Struct]


class LonePublishes:
    """The lines that a connection has published with."""

    __slots__ = ("_known", "_size_max")

    def __init__(self, max_msg_size: int, max_body_size: int) -> None:
        self._known: dict[bytes, _Known] = {}
        # Beside its body, an MPUB of one message has a count and a size: 8 bytes.
        self._size_max = min(max_msg_size, max_body_size - 8, LONE_BYTES_MAX)

    def expect(self, command: str, topic: str) -> None:
        """Know the line of such a publish from now on; that of a DPUB changes and is left out."""
        if command != "DPUB" and len(self._known) < LINES_MAX:
            sizes = _PUB if command == "PUB" else _MPUB
            self._known[f"{command} {topic}".encode()] = command, topic, sizes

    def find(self, data: bytes) -> tuple[str, str, bytes] | None:
        """Command, topic and body, if these bytes publish one message; None if they may not."""
        end = data.find(b"\n", 0, _LINE_BYTES_MAX)
        known = self._known.get(data[:end])
        if known is None:
            return None
        command, topic, sizes = known
        start = end + 1 + sizes.size
        size = len(data) - start
        if not 0 < size <= self._size_max:
            return None
        said = sizes.unpack_from(data, end + 1)
        if said != ((size,) if sizes is _PUB else (size + 8, 1, size)):
            return None
        return command, topic, data[start:]
