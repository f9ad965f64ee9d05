"""The start of a connection, without I/O: magic, IDENTIFY, upgrades, AUTH where asked, SUB.

The conversation is written down once, as a generator; ``Wire`` sends what it asks and hands it the
answers (NSQ spec 1.4 to 1.6, 1.10).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from typing import NamedTuple

from penstock.core.quote import quote
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.server_info import ServerInfo, StrangeAnswerError
from penstock.nsq.client.errors import ClientError, HandshakeFailed, server_error
from penstock.nsq.client.events import tell
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import Error, Frame, FrameReader, MessageBlock

ANSWER_MAX = 1 << 20
"""Bytes of the longest answer; nodes send less than a thousandth of that."""


class NotNsq(ClientError):
    """A peer that is not an nsqd; the text says what it seems to be. ``Wire`` adds the address."""


class AnswerReader:
    """Bytes in, the next frame out; the bytes after it stay."""

    def __init__(self) -> None:
        self._held = bytearray()

    def receive_data(self, data: bytes) -> None:
        """Take bytes of the node."""
        self._held += data

    def next(self) -> Frame | None:
        """The next frame, if it is complete. Raises NotNsq, ProtocolError."""
        held = self._held
        if len(held) < 4:
            return None
        # As a size it would be 1213486160, which go-nsq looks for, too (NSQ spec 2.1).
        if held.startswith(b"HTTP"):
            raise NotNsq("unexpected HTTP response; is this the HTTP port of nsqd?")
        size = int.from_bytes(held[:4], "big")
        if not 4 <= size <= ANSWER_MAX:
            raise ProtocolError("E_BAD_FRAME", f"an answer of {size} bytes")
        if len(held) < 4 + size:
            return None
        reader = FrameReader(ANSWER_MAX)
        reader.receive_data(bytes(held[: 4 + size]))
        del held[: 4 + size]
        return reader.events()[0]

    def rest(self) -> bytes:
        """The bytes that came after the last frame; they are not kept."""
        rest = bytes(self._held)
        self._held.clear()
        return rest


_SHOWN = {"tls": "TLS", "deflate": "Deflate", "snappy": "Snappy"}


class HandshakeStep(NamedTuple):
    """One thing to ask of the node: send ``command``, or put ``layer`` on, and take the answer."""

    what: str
    command: bytes = b""
    layer: str = ""


class Handshake:
    """The opening of one connection, of a consumer when a topic and a channel are given."""

    def __init__(self, address: str, config: Config, topic: str = "", channel: str = "") -> None:
        self.server = ServerInfo()
        self.done = False
        self._address = address
        self._config = config
        self._topic = topic
        self._channel = channel
        self._conversation = self._talk()
        self._ask = HandshakeStep("")

    @property
    def awaited(self) -> str:
        """The request that the node has not answered yet."""
        return self._ask.what

    def begin(self) -> HandshakeStep:
        """The first request."""
        self._ask = next(self._conversation)
        return self._ask

    def receive(self, frame: Frame) -> HandshakeStep | None:
        """The request that follows this answer; None when there is nothing more, or not yet.

        Raises the ServerError of a refusal, and HandshakeFailed.
        """
        if isinstance(frame, Error):
            self._tell(logging.ERROR, "error-frame", f"protocol error - {frame.text}")
            raise server_error(frame.text)
        if isinstance(frame, MessageBlock):
            raise self._failed(f"the server sent a message instead of an answer to {self.awaited}")
        if frame.is_heartbeat:
            # Before an upgrade the server may swallow what it did not ask for (NSQ spec 1.6).
            early = self._ask.layer or self.awaited == "IDENTIFY"
            return None if early else HandshakeStep(self.awaited, encode.NOP)
        try:
            self._ask = self._conversation.send(frame.data)
        except StopIteration:
            self.done = True
            return None
        return self._ask

    def _talk(self) -> Generator[HandshakeStep, bytes, None]:
        body = self._config.identify_body()
        answer = yield HandshakeStep("IDENTIFY", encode.MAGIC_V2 + encode.identify(body))
        self._learn(answer)
        # nsqd puts TLS on first, then the compression, and says OK behind each.
        for layer in self.server.layers:
            shown = _SHOWN[layer]
            self._tell(logging.INFO, "protocol", f"upgrading to {shown}")
            if (yield HandshakeStep(f"{shown} upgrade", layer=layer)) != b"OK":
                raise self._failed(f"invalid response from {shown} upgrade")
        if self.server.auth_required:
            if not self._config.auth_secret:
                text = "Auth Required: the server requires authentication, there is no auth_secret"
                raise self._failed(text)
            self._authorized(
                (yield HandshakeStep("AUTH", encode.auth(self._config.auth_secret.encode())))
            )
        if self._topic:
            yield HandshakeStep("SUB", encode.subscribe(self._topic, self._channel))

    def _learn(self, answer: bytes) -> None:
        try:
            self.server = ServerInfo.of(answer)
        except StrangeAnswerError as error:
            raise self._failed(str(error)) from error
        self._tell(logging.DEBUG, "protocol", f"IDENTIFY response: {self.server}")
        if self._config.tls_v1 and not self.server.tls_v1:
            self._without_tls()

    def _without_tls(self) -> None:
        """Accept a server without TLS, with a warning, or raise HandshakeFailed.

        As in go-nsq ``tls_v1`` alone means TLS where it is offered; a configuration that says whom
        to trust, or has a secret to keep, wants no less.
        """
        config = self._config
        text = "the server offers no TLS"
        trusts = config.tls_config or config.tls_root_ca_file or config.tls_cert
        if trusts or (config.auth_secret and self.server.auth_required):
            raise self._failed(text)
        self._tell(logging.WARNING, "protocol", f"{text}, the connection is in the clear")

    def _authorized(self, answer: bytes) -> None:
        try:
            found = json.loads(answer)
            identity, url = found.get("identity", ""), found.get("identity_url", "")
            count = found.get("permission_count", 0)
        except (ValueError, RecursionError, AttributeError):
            raise self._failed("the answer to AUTH is not a JSON object") from None
        self._tell(
            logging.INFO,
            "protocol",
            f"Auth accepted. Identity: {quote(str(identity))} {url} Permissions: {count}",
        )

    def _failed(self, reason: str) -> HandshakeFailed:
        return HandshakeFailed(self._address, reason)

    def _tell(self, level: int, event: str, text: str) -> None:
        topic, channel = self._topic, self._channel
        tell(level, event, text, address=self._address, topic=topic, channel=channel)
