"""A daemon under test and the clients that talk to it, in the words of NSQ's protocol."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from penstock.testing.daemons import Daemon
from tools.replay import raw_http
from tools.replay.connection import ERROR, MESSAGE, RESPONSE, Connection

MAGIC = b"  V2"
HEARTBEAT = b"_heartbeat_"
POLL_S = 0.01
UNTIL_S_MAX = 30.0
"""Longest wait for a state: Go's nsqd looks at a new channel's deadlines after 5 s."""


class Message(NamedTuple):
    """A message frame."""

    timestamp: int
    attempts: int
    id: bytes
    body: bytes


class Client:
    """A connection that answers heartbeats and says what it expects."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def send(self, data: bytes) -> None:
        await self.connection.send(data)

    async def frame(self) -> tuple[int, bytes]:
        """The next frame that is no heartbeat."""
        while True:
            kind, data = await self.connection.frame()
            if (kind, data) != (RESPONSE, HEARTBEAT):
                return kind, data
            await self.send(b"NOP\n")

    async def ask(self, data: bytes) -> bytes:
        """Send; the next frame, which must be a response."""
        await self.send(data)
        kind, answer = await self.frame()
        assert kind == RESPONSE, answer
        return answer

    async def error(self, data: bytes = b"") -> str:
        """Send; the next frame, which must be an error."""
        await self.send(data)
        kind, answer = await self.frame()
        assert kind == ERROR, answer
        return answer.decode()

    async def message(self) -> Message:
        """The next frame, which must be a message."""
        kind, data = await self.frame()
        assert kind == MESSAGE, data
        timestamp, attempts = struct.unpack_from(">qH", data)
        return Message(timestamp, attempts, data[10:26], data[26:])

    async def messages(self, count: int) -> list[Message]:
        return [await self.message() for _ in range(count)]

    async def identify(self, **fields: Any) -> dict[str, Any]:
        """The server's answer; a layer that it announces is not begun here."""
        answer: dict[str, Any] = json.loads(await self.ask(identify(**fields)))
        return answer

    async def subscribe(self, topic: str, channel: str = "c", ready: int = 0) -> None:
        assert await self.ask(f"SUB {topic} {channel}\n".encode()) == b"OK"
        if ready:
            await self.ready(ready)

    async def ready(self, count: int) -> None:
        await self.send(b"RDY %d\n" % count)

    async def finish(self, message: Message) -> None:
        await self.send(b"FIN %s\n" % message.id)

    async def publish(self, topic: str, *bodies: bytes) -> None:
        """All in one write, one OK each."""
        await self.send(b"".join(pub(topic, body) for body in bodies))
        for _ in bodies:
            assert await self.ask(b"") == b"OK"

    async def silent(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        return await self.connection.silence(seconds) == b""


class Server:
    """The daemon, asked over HTTP and TCP."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self._clients: list[Client] = []

    async def client(self, magic: bytes = MAGIC, host: str = "127.0.0.1") -> Client:
        """A new connection; all are closed in the end."""
        client = Client(await Connection.open(self.daemon.tcp_port, host))
        self._clients.append(client)
        await client.send(magic)
        return client

    async def consumer(self, topic: str, channel: str = "c", ready: int = 0) -> Client:
        client = await self.client()
        await client.subscribe(topic, channel, ready)
        return client

    async def publish(self, topic: str, *bodies: bytes) -> None:
        await (await self.client()).publish(topic, *bodies)

    async def call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of an answer of 200."""
        answer = await raw_http.call(self.daemon.http_port, method, path, body)
        assert answer.status == 200, (path, answer)
        return answer.body

    async def topic(self, name: str) -> dict[str, Any]:
        """What /stats says of a topic; empty when there is none."""
        path = f"/stats?format=json&topic={name.replace('#', '%23')}"
        found = json.loads(await self.call("GET", path))
        return found["topics"][0] if found["topics"] else {}

    async def channel(self, topic: str, name: str = "c") -> dict[str, Any]:
        """What /stats says of a channel; empty when there is none."""
        channels = (await self.topic(topic)).get("channels") or []
        return next((each for each in channels if each["channel_name"] == name), {})

    async def until_channel(self, topic: str, name: str = "c", **counts: object) -> None:
        """Wait until the statistics of a channel are these."""
        seen: dict[str, Any] = {}

        async def there() -> bool:
            nonlocal seen
            seen = await self.channel(topic, name)
            return all(seen.get(key) == value for key, value in counts.items())

        await until(there, lambda: f"{counts} of {seen}")

    async def close(self) -> None:
        """Drop all connections."""
        for client in self._clients:
            client.connection.reset()
        await asyncio.sleep(0)  # their transports close in the next pass of the loop


async def until(
    check: Callable[[], Awaitable[bool]], what: Callable[[], str] = lambda: "state"
) -> None:
    """Wait until the check holds; AssertionError says what did not come."""
    for _ in range(int(UNTIL_S_MAX / POLL_S)):
        if await check():
            return
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"waited in vain for {what()}")


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def pub(topic: str, body: bytes) -> bytes:
    return f"PUB {topic}\n".encode() + sized(body)


def dpub(topic: str, ms: int, body: bytes) -> bytes:
    return f"DPUB {topic} {ms}\n".encode() + sized(body)


def identify(**fields: Any) -> bytes:
    return b"IDENTIFY\n" + sized(json.dumps({"feature_negotiation": True, **fields}).encode())
