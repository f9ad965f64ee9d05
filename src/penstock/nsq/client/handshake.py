"""How a connection begins, without I/O: magic, IDENTIFY, AUTH where asked, SUB for a consumer.

The blocking and the asyncio connection both send what ``begin`` and ``receive`` give them, until
``done``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError, server_error
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, Frame, MessageBlock


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the node said of itself; times in milliseconds."""

    version: str = ""
    max_rdy_count: int = 2500
    msg_timeout: int = 60_000
    max_msg_timeout: int = 900_000
    auth_required: bool = False


class Handshake:
    """The opening of one connection, of a consumer when a topic and a channel are given."""

    def __init__(self, config: Config, topic: str = "", channel: str = "") -> None:
        self.server = ServerInfo()
        self.done = False
        self._config = config
        self._subscription = (topic, channel) if topic else None
        self._awaited = "IDENTIFY"

    def begin(self) -> bytes:
        """What to send first."""
        return encode.MAGIC_V2 + encode.identify(self._config.identify_body())

    def receive(self, frame: Frame) -> bytes:
        """What to send after this answer, perhaps nothing. Raises ClientError."""
        if isinstance(frame, Error):
            raise server_error(frame.text)
        if isinstance(frame, MessageBlock):
            raise ClientError(f"the server sent a message instead of an answer to {self._awaited}")
        if frame.is_heartbeat:
            return encode.NOP
        if self._awaited == "IDENTIFY":
            self.server = _server_info(frame.data)
            if self.server.auth_required:
                return self._authenticate()
        return self._subscribe_or_end()

    def _authenticate(self) -> bytes:
        if not self._config.auth_secret:
            raise ClientError("the server requires authentication, and there is no auth_secret")
        self._awaited = "AUTH"
        return encode.auth(self._config.auth_secret.encode())

    def _subscribe_or_end(self) -> bytes:
        if self._subscription is None or self._awaited == "SUB":
            self.done = True
            return b""
        self._awaited = "SUB"
        return encode.subscribe(*self._subscription)


def _server_info(data: bytes) -> ServerInfo:
    if not data.startswith(b"{"):  # a server that does not negotiate
        return ServerInfo()
    try:
        answer = json.loads(data)
    except ValueError as error:
        raise ClientError(f"the answer to IDENTIFY is no JSON: {error}") from error
    known = {name: answer[name] for name in ServerInfo.__slots__ if name in answer}
    return ServerInfo(**known)
