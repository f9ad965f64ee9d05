"""A producer on a plain socket."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from penstock.nsq.client.blocking.connection import Connection
from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import ClientError, NotConnected, server_error
from penstock.nsq.client.names import checked_topic
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import Error, Response


class Producer:
    """Publishes to one node; connects when it first needs to, and again after a loss.

    When a publish raises NotConnected, the server may or may not have the message: publish again if
    twice is better than never. A refusal is the ServerError of its code, such as BadTopic.
    """

    def __init__(self, address: str, config: Config | None = None) -> None:
        self.address = address
        # Nobody would answer heartbeats between two publishes.
        self._config = replace(config or Config(), heartbeat_interval=-1)
        self._connection: Connection | None = None

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later publish opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def publish(self, topic: str, body: bytes) -> None:
        """Publish one message and wait until the server has it."""
        self._ask(encode.publish(checked_topic(topic, "PUB"), body))

    def multi_publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        """Publish many messages at once: quicker by far, and refused all or none."""
        if bodies:
            self._ask(encode.multi_publish(checked_topic(topic, "MPUB"), bodies))

    def deferred_publish(self, topic: str, delay: float, body: bytes) -> None:
        """Publish a message that is delivered no sooner than ``delay`` seconds from now."""
        self._ask(encode.deferred_publish(checked_topic(topic, "DPUB"), int(delay * 1000), body))

    def ping(self) -> None:
        """See that the node can be reached."""
        self._connected().send(encode.NOP)

    def _ask(self, command: bytes) -> None:
        connection = self._connected()
        connection.send(command)
        frame = connection.receive()
        if isinstance(frame, Error):
            if frame.is_fatal:
                self.close()
            raise server_error(frame.text)
        if frame != Response(b"OK"):
            self.close()
            raise ClientError(f"{self.address}: unexpected answer to a publish: {frame!r}")

    def _connected(self) -> Connection:
        connection = self._connection
        if connection is not None and connection.is_open:
            # What a server says to a silent producer is that it closes.
            with contextlib.suppress(NotConnected):
                if not connection.receive_ready() and connection.is_open:
                    return connection
            self.close()
        self._connection = Connection(self.address, self._config)
        return self._connection
