"""The TCP port of a node that is not a primary: each client gets one error that says who is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from penstock.nsq.protocol import frames

SILENCE_S: Final = 60.0
"""The time after which a client that says nothing is closed, as by a primary (NSQ spec 1.1)."""


class RefusalPort:
    """The factory of its connections; ``text`` gives NSQ's error, as it is now."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self.connections: set[_Refusal] = set()

    def __call__(self) -> asyncio.BaseProtocol:
        return _Refusal(self._text(), self.connections)

    def close_connections(self) -> None:
        for each in list(self.connections):
            each.close()


class _Refusal(asyncio.Protocol):
    """A connection: it is answered when its client has said anything, and ends."""

    _patience: asyncio.TimerHandle

    def __init__(self, text: str, connections: set[_Refusal]) -> None:
        self._text = text
        self._connections = connections
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._patience = asyncio.get_running_loop().call_later(SILENCE_S, self.close)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frames.error(self._text))
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._patience.cancel()
        self._connections.discard(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
