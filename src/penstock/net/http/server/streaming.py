r"""An answer without an end: server-sent events and the like.

    stream = Stream("text/event-stream", closed=lambda: streams.discard(stream))
    return stream                      # from a handler; and later, for as long as it goes well:
    stream.send(b"data: x\n\n")

It has no length and ends with its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.net.http.server.message import Headers, Response

BEHIND_MAX: Final = 8 << 20
"""Bytes that may wait for a client; one that is further behind is let go, and may come again."""


class StreamingResponse(Response):
    """A response whose body is given to ``send`` bit by bit."""

    __slots__ = ("_closed", "_early", "_transport")

    def __init__(
        self, content_type: str, headers: Headers = (), *, closed: Callable[[], None]
    ) -> None:
        """``closed`` is called once, when the client has gone or was let go."""
        super().__init__(200, b"", content_type, headers)
        self._closed = closed
        self._early: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def send(self, data: bytes) -> None:
        """Send more of the body; wait for the head first if that was not sent yet."""
        transport = self._transport
        if transport is None:
            self._early.append(data)
        elif transport.get_write_buffer_size() > BEHIND_MAX:
            transport.abort()
        elif not transport.is_closing():
            transport.write(data)

    def begin(self, transport: asyncio.Transport, date: bytes) -> None:
        """The connection's turn: writes the head, and what was sent before."""
        lines = [
            "HTTP/1.1 200 OK",
            *(f"{name}: {value}" for name, value in sorted(self.headers)),
            f"Content-Type: {self.content_type}",
            "Connection: close",
        ]
        head = "\r\n".join(lines).encode("latin-1", "replace")
        transport.write(b"".join([head, b"\r\n", date, b"\r\n", *self._early]))
        self._early.clear()
        self._transport = transport

    def received(self, data: bytes) -> None:
        """The connection's turn: the client says something behind its request, which few hear."""

    def pause(self) -> None:
        """The connection's turn: the client is slow, and more would have to wait."""

    def resume(self) -> None:
        """The connection's turn: there is room again."""

    def lost(self) -> None:
        """The connection's turn: nobody listens any more."""
        closed, self._closed = self._closed, _nothing
        closed()


def _nothing() -> None:
    """Do nothing: the call that is left after the end."""
