"""One nsqd's connection to nsqlookupd."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock.net.address import show_address
from penstock.net.budget import MemoryQueue, MemoryTurn
from penstock.nsq.nsqlookupd.protocol import (
    OK,
    Command,
    CommandReader,
    Identify,
    LookupProtocolError,
    Ping,
    Register,
    Unregister,
    error_reply,
    reply,
)
from penstock.nsq.nsqlookupd.registry import Producer, Registry

UNIDENTIFIED_LIMIT_S = 300.0
"""The time in seconds until a connection must identify itself; an identified one may be silent."""
LINGER_S = 0.5
"""The seconds for which input is discarded after an error, so that the error's text arrives."""

logger = logging.getLogger("penstock.nsqlookupd")


class LookupServer:
    """State that connections share; its instance is the protocol factory for ``net.tcp.listen``."""

    def __init__(
        self, registry: Registry, describe: Callable[[], bytes], turns: MemoryQueue
    ) -> None:
        self.registry = registry
        self.turns = turns
        self.describe = describe
        """A function that makes the answer to IDENTIFY: nsqlookupd's own addresses as JSON."""
        self.sessions: set[Session] = set()

    def __call__(self) -> Session:
        return Session(self)

    def close_connections(self) -> None:
        """End every connection; for shutdown."""
        for session in list(self.sessions):
            session.close()


class Session(asyncio.Protocol):
    """An nsqd's connection: its commands change the registry, and are answered."""

    def __init__(self, server: LookupServer) -> None:
        self._server = server
        self._reader = CommandReader()
        self._producer: Producer | None = None
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle
        self._name = ""
        self._closing = False
        self._is_blocked = False
        self._share = MemoryTurn(server.turns, self._on_turn, self.close)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's is always one
        self._name = show_address(transport.get_extra_info("peername"))
        self._server.sessions.add(self)
        self._deadline = asyncio.get_running_loop().call_later(UNIDENTIFIED_LIMIT_S, self.close)
        logger.info("TCP: new client(%s)", self._name)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._deadline.cancel()
        self._share.close()
        self._server.sessions.discard(self)
        if self._producer is not None:
            self._server.registry.disconnect(self._producer)
        logger.info("PROTOCOL(V1): [%s] exiting", self._name)

    def data_received(self, data: bytes) -> None:
        if not self._closing:
            self._reader.receive_data(data)
            self._handle_commands()
            if not self._share.hold(self._reader.unread):
                self._transport.pause_reading()

    def eof_received(self) -> bool:
        if not self._closing:
            self._reader.receive_eof()
            self._handle_commands()
        return False

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._transport.pause_reading()  # a peer that reads no answers sends no more commands

    def resume_writing(self) -> None:
        self._is_blocked = False
        if not self._share.waits:
            self._transport.resume_reading()

    def _on_turn(self) -> None:
        """Resume reading, as it is the peer's turn to use the memory for requests."""
        if not self._is_blocked and not self._closing:
            self._transport.resume_reading()

    def close(self) -> None:
        """End the connection after what was written."""
        self._closing = True
        self._transport.close()

    def _handle_commands(self) -> None:
        answers = []
        try:
            while (command := self._reader.next_command()) is not None:
                answers.append(self._handle(command))
        except LookupProtocolError as error:
            logger.error("client(%s) - %s", self._name, error)
            # Behind the answers to the commands before it, which are owed as well.
            answers.append(error_reply(error))
            self._transport.write(b"".join(answers))
            self._linger()
            return
        if answers:
            self._transport.write(b"".join(answers))

    def _handle(self, command: Command) -> bytes:
        registry, producer = self._server.registry, self._producer
        if isinstance(command, Identify):
            self._identify(command)
            return reply(self._server.describe())
        if producer is None:
            return OK  # only PING comes before IDENTIFY
        match command:
            case Ping():
                registry.touch(producer)
            case Register(topic, channel):
                registry.register(producer, topic, channel)
                logger.info(
                    "DB: client(%s) REGISTER topic:%s channel:%s", self._name, topic, channel
                )
            case Unregister(topic, channel):
                self._unregister(producer, topic, channel)
        return OK

    def _identify(self, command: Identify) -> None:
        self._deadline.cancel()
        self._producer = Producer(self._name, command.peer)
        self._server.registry.connect(self._producer)
        peer = command.peer
        logger.info(
            "CLIENT(%s): IDENTIFY address:%s tcp:%d http:%d version:%s",
            self._name,
            peer.broadcast_address,
            peer.tcp_port,
            peer.http_port,
            peer.version,
        )

    def _unregister(self, producer: Producer, topic: str, channel: str) -> None:
        registry = self._server.registry
        if channel:
            registry.unregister_channel(producer, topic, channel)
        else:
            for left in registry.unregister_topic(producer, topic):
                logger.warning(
                    "client(%s) unexpected UNREGISTER channel:%s of topic:%s",
                    self._name,
                    left,
                    topic,
                )
        logger.info("DB: client(%s) UNREGISTER topic:%s channel:%s", self._name, topic, channel)

    def _linger(self) -> None:
        """End the connection once the peer could read: unread input would reset it."""
        self._closing = True
        self._deadline.cancel()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._deadline = asyncio.get_running_loop().call_later(LINGER_S, self._transport.close)
