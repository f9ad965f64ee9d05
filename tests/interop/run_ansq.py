"""The flows with ansq (asyncio)."""

from __future__ import annotations

import asyncio
from typing import Any

import ansq
import flow
from ansq import ConnectionFeatures, ConnectionOptions

OPTIONS = ConnectionOptions(
    features=ConnectionFeatures(
        heartbeat_interval=flow.HEARTBEAT_S * 1000, msg_timeout=round(flow.MSG_TIMEOUT_S * 1000)
    )
)


class Client:
    """A writer and a reader task."""

    def __init__(self, writer: Any, reader: Any) -> None:
        self.finished: dict[str, int] = {}
        self.progress = asyncio.Event()
        self.writer = writer
        self.reader = reader
        self.tasks = {asyncio.create_task(self.read())}

    async def read(self) -> None:
        async for message in self.reader.messages():
            self.tasks.add(asyncio.create_task(self.handle(message)))

    async def handle(self, message: Any) -> None:
        body = message.body.decode()
        if body == flow.REQUEUED and message.attempts == 1:
            await message.req(flow.REQUEUE_MS)
            return
        if body == flow.TOUCHED:
            for _ in range(flow.TOUCHES):
                await asyncio.sleep(flow.TOUCH_EVERY_S)
                await message.touch()
        await message.fin()
        self.finished[body] = message.attempts
        self.progress.set()

    async def publish(self, body: str) -> None:
        response = await self.writer.pub(flow.TOPIC, body)
        assert response.is_ok, response

    async def until(self, *bodies: str) -> None:
        while not set(bodies) <= set(self.finished):
            self.progress.clear()
            await self.progress.wait()


async def play_all(client: Client) -> None:
    await client.publish(flow.SINGLE)
    await client.writer.mpub(flow.TOPIC, *flow.MULTIPLE)
    await client.writer.dpub(flow.TOPIC, flow.DEFERRED, flow.DEFER_MS)
    await client.publish(flow.REQUEUED)
    await client.publish(flow.TOUCHED)
    await client.until(*flow.FIRST_PART)
    await asyncio.sleep(flow.IDLE_S)
    await client.publish(flow.LAST)
    await client.until(flow.LAST)


async def play_restart(client: Client, tcp: str) -> None:
    """The reader reconnects. A writer would too, but mixes up its answers if used too early."""
    await client.publish(flow.BEFORE)
    await client.until(flow.BEFORE)
    await client.writer.close()
    await asyncio.sleep(0.3)
    await asyncio.to_thread(flow.restart)
    client.writer = await ansq.create_writer([tcp], connection_options=OPTIONS)
    await client.publish(flow.AFTER)
    await client.until(flow.AFTER)


async def main() -> None:
    mode, tcp, lookup = flow.arguments()
    writer = await ansq.create_writer([tcp], connection_options=OPTIONS)
    source: dict[str, Any] = {"nsqd_tcp_addresses": [tcp]}
    if mode == "lookup":
        await writer.pub(flow.TOPIC, flow.FOUND)
        source = {"lookupd_http_addresses": [lookup], "lookupd_poll_interval": 500}
    reader = await ansq.create_reader(
        flow.TOPIC, flow.CHANNEL, connection_options=OPTIONS, **source
    )
    client = Client(writer, reader)
    for connection in reader.connections:
        await connection.rdy(10)
    if mode == "lookup":
        await client.until(flow.FOUND)
    else:
        await (play_all(client) if mode == "all" else play_restart(client, tcp))
    await asyncio.sleep(0.2)  # the last FIN leaves
    flow.report(client.finished)


asyncio.run(main())
