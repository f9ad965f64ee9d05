"""nsqd's side of nsqlookupd: say who we are and which topics and channels we have.

Each nsqlookupd has a peer task with its own connection, so that a slow one delays nobody. A
lost connection is reopened with the next command, or soon without one, and everything is
registered again (NSQ spec 3.9).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from penstock.core.errors import PenstockError
from penstock.core.gojson import dumps
from penstock.core.names import is_ephemeral, is_valid_name
from penstock.core.reasons import reason
from penstock.core.units import MINUTE, SECOND
from penstock.net.address import join_host_port, split_host_port
from penstock.net.http.client import once as http_client
from penstock.net.tasks import spawn
from penstock.nsq.nsqlookupd.protocol import (
    MAGIC_V1,
    PING,
    ReplyReader,
    identify,
    register,
    unregister,
)

logger = logging.getLogger("penstock.nsqd")

PING_INTERVAL_S: Final = 15.0
# Go does not retry before its next command, which may be a PING 15 s later (NSQ spec 3.9).
RETRY_S: Final = 1.0
"""The delay of the first try to reconnect; doubled each time, up to the interval of the pings."""
# Both as in Go (NSQ spec 3.9): an nsqlookupd that is slower counts as down.
_DIAL_TIMEOUT_S: Final = 1.0
_REPLY_TIMEOUT_S: Final = 1.0
# More than that is cheaper to tell by connecting again, which registers everything.
_QUEUE_MAX: Final = 10_000
_READ_BYTES: Final = 64 * 1024

Registrations = Callable[[], Iterable[tuple[str, str | None]]]


class LookupPeer:
    """The connection to one nsqlookupd."""

    def __init__(
        self,
        address: str,
        identity: Callable[[], bytes],
        registrations: Registrations,
        limit: int,
        registered: Callable[[], None],
    ) -> None:
        """``registered`` is called whenever it has been told everything."""
        self.address = address
        self.info: dict[str, Any] = {}
        self.connected = False
        self._failures = 0
        self._due = 0.0
        """The time of the next PING, or try to reconnect, by the loop's clock."""
        self._identity = identity
        self._registrations = registrations
        self._registered = registered
        self._limit = limit
        self._commands: asyncio.Queue[bytes] = asyncio.Queue(_QUEUE_MAX)
        self._replies = ReplyReader(limit)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._task = spawn(self._run(), f"lookupd {address}")

    def send(self, command: bytes) -> None:
        """Queue a command line; when too many wait, the connection is reopened instead."""
        try:
            self._commands.put_nowait(command)
        except asyncio.QueueFull:
            self._drop("too many commands wait")

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._drop(None)

    async def _run(self) -> None:
        await self._try(None)
        while True:
            await self._try(await self._next())

    async def _next(self) -> bytes:
        """The next command, or PING when that is due: nothing else keeps a node in look-ups, so the
        commands of a busy one must not put it off.
        """
        with suppress(TimeoutError):
            left_s = self._due - asyncio.get_running_loop().time()
            if left_s > 0:  # with a time-out of 0, a command that waits would still come first
                # Not wait_for: before Python 3.12 it may swallow a cancellation, and close() hang.
                async with asyncio.timeout(left_s):
                    return await self._commands.get()
        return PING

    def _patience_s(self) -> float:
        if self.connected:
            return PING_INTERVAL_S
        return min(PING_INTERVAL_S, RETRY_S * 2.0 ** min(self._failures - 1, 10))

    async def _try(self, command: bytes | None) -> None:
        puts_off = command is None or command == PING or not self.connected
        try:
            if self._writer is None:
                await self._connect()  # registers everything, this command's matter included
            elif command is not None:
                await self._command(command)
        except (OSError, ValueError, EOFError, PenstockError) as error:
            self._failures += 1
            self._drop(reason(error))
        if puts_off or not self.connected:
            self._due = asyncio.get_running_loop().time() + self._patience_s()

    async def _connect(self) -> None:
        host, port = split_host_port(self.address)
        # All topics and channels are registered below, those of waiting commands too.
        while not self._commands.empty():
            self._commands.get_nowait()
        async with asyncio.timeout(_DIAL_TIMEOUT_S):
            self._reader, self._writer = await asyncio.open_connection(host, port)
        self._replies = ReplyReader(self._limit)
        answer = await self._command(MAGIC_V1 + identify(self._identity()))
        # What a very old nsqlookupd answers (NSQ spec 3.9).
        if answer == b"E_INVALID":
            raise PenstockError("does not know IDENTIFY")
        self.info = _object(answer)
        self.connected = True
        logger.info("LOOKUPD(%s): peer info %s", self.address, answer.decode("utf-8", "replace"))
        # A copy: others may be made while a reply is awaited, and queue their own command.
        for topic, channel in list(self._registrations()):
            if is_valid_name(topic):
                await self._command(register(topic, channel or ""))
        self._failures = 0
        self._registered()

    async def _command(self, command: bytes) -> bytes:
        if self._reader is None or self._writer is None:
            raise ConnectionError("the connection was dropped")
        self._writer.write(command)
        async with asyncio.timeout(_REPLY_TIMEOUT_S):
            return await self._reply(self._reader)

    async def _reply(self, reader: asyncio.StreamReader) -> bytes:
        while (data := self._replies.next_reply()) is None:
            received = await reader.read(_READ_BYTES)
            if not received:
                raise EOFError("it closed the connection")
            self._replies.receive_data(received)
        if data.startswith(b"E_") and data != b"E_INVALID":
            logger.error("LOOKUPD(%s): %s", self.address, data.decode("utf-8", "replace"))
        return data

    def _drop(self, why: str | None) -> None:
        if why is not None:
            logger.error("LOOKUPD(%s): %s", self.address, why)
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
        self.connected = False


class Lookup:
    """All nsqlookupds of this nsqd."""

    def __init__(
        self,
        identity: Callable[[], bytes],
        registrations: Registrations,
        limit: int,
        connect_timeout_ns: int,
        timeout_ns: int,
    ) -> None:
        self.peers: dict[str, LookupPeer] = {}
        self._was_registered = False
        self._identity = identity
        self._registrations = registrations
        self._limit = limit
        # As in Go 0 is for none; but a topic waits for the answer before it delivers.
        self._connect_s = connect_timeout_ns / SECOND if connect_timeout_ns > 0 else None
        self._timeout_s = (timeout_ns if timeout_ns > 0 else MINUTE) / SECOND

    def set_addresses(self, addresses: Iterable[str]) -> None:
        """Connect to those that are new and leave those that are not listed any more."""
        wanted = list(dict.fromkeys(addresses))
        for address in [address for address in self.peers if address not in wanted]:
            spawn(self.peers.pop(address).close(), f"leave lookupd {address}")
        for address in wanted:
            if address not in self.peers:
                self.peers[address] = LookupPeer(
                    address, self._identity, self._registrations, self._limit, self._registered
                )

    def _registered(self) -> None:
        self._was_registered = True

    def missing(self) -> list[str]:
        """A line until one nsqlookupd at least knows everything, empty from then on.

        An nsqd is not taken out of service because all nsqlookupds are away: consumers that are
        connected go on.
        """
        if self._was_registered or not self.peers:
            return []
        return [f"NOK - not registered at any nsqlookupd yet: {', '.join(self.peers)}"]

    def register(self, topic: str, channel: str | None = None) -> None:
        self._tell(topic, register(topic, channel or ""))

    def unregister(self, topic: str, channel: str | None = None) -> None:
        self._tell(topic, unregister(topic, channel or ""))

    def _tell(self, topic: str, command: bytes) -> None:
        if not is_valid_name(topic):  # another dialect's, which no client of NSQ could name
            return
        for peer in self.peers.values():
            peer.send(command)

    def http_addresses(self) -> list[str]:
        """``host:port`` of the HTTP side of those that are connected and told it."""
        found = []
        for peer in self.peers.values():
            host, port = peer.info.get("broadcast_address"), peer.info.get("http_port")
            if peer.connected and host and isinstance(host, str) and isinstance(port, int) and port:
                found.append(join_host_port(host, port))
        return found

    async def channels(self, topic: str) -> list[str]:
        """The channels that any nsqlookupd knows for a topic, ephemeral ones left out."""
        urls = [
            f"http://{address}/channels?topic={quote(topic, safe='')}"
            for address in self.http_addresses()
        ]
        if self.peers and not urls:
            logger.error(
                "no available nsqlookupd to query for channels to pre-create for topic %s", topic
            )
        answers = await asyncio.gather(*(self._fetch(url) for url in urls))
        names = {name for answer in answers for name in answer}
        # As in Go: an ephemeral channel is there for its consumer elsewhere (NSQ spec 3.1).
        return sorted(name for name in names if is_valid_name(name) and not is_ephemeral(name))

    async def _fetch(self, url: str) -> list[str]:
        try:
            answer = await http_client.request(
                "GET", url, self._timeout_s, connect_timeout=self._connect_s
            )
        except (http_client.HttpError, ValueError) as error:
            logger.warning("failed to query nsqlookupd for channels to pre-create - %s", error)
            return []
        found = _object(answer.body).get("channels") if answer.status == 200 else None
        names = found if isinstance(found, list) else []
        return [name for name in names if isinstance(name, str)]

    async def close(self) -> None:
        for peer in self.peers.values():
            await peer.close()


def identity(options: Any, hostname: str, tcp_port: int, http_port: int, version: str) -> bytes:
    """The JSON with which nsqd introduces itself; keys in alphabetical order."""
    return dumps(
        {
            "broadcast_address": options.broadcast_address,
            "hostname": hostname,
            "http_port": http_port,
            "tcp_port": tcp_port,
            "topology_region": options.topology_region,
            "topology_zone": options.topology_zone,
            "version": version,
        }
    )


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
