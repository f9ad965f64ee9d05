"""The flows with pynsq (tornado)."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import flow
import nsq


def layers(mode: str) -> dict[str, Any]:
    """The options of Writer and Reader for a mode such as `tls-snappy`."""
    if mode not in ("tls-snappy", "tls-deflate", "deflate"):
        return {}
    options: dict[str, Any] = {mode.removeprefix("tls-"): True}
    if mode.startswith("tls-"):
        options |= {"tls_v1": True, "tls_options": {"ca_certs": os.environ["FLOW_CA"]}}
    return options


class Client:
    """A Writer and a Reader, with futures instead of callbacks."""

    def __init__(self, tcp: str, layers: dict[str, Any], **source: Any) -> None:
        self.finished: dict[str, int] = {}
        self.progress = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.writer = nsq.Writer([tcp], reconnect_interval=0.3, **layers)
        self.reader = nsq.Reader(
            flow.TOPIC,
            flow.CHANNEL,
            message_handler=self.on_message,
            max_in_flight=10,
            heartbeat_interval=flow.HEARTBEAT_S,
            lookupd_poll_interval=1,
            **layers,
            **source,
        )

    def on_message(self, message: Any) -> None:
        message.enable_async()
        task = asyncio.get_running_loop().create_task(self.handle(message))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def handle(self, message: Any) -> None:
        body = message.body.decode()
        if body == flow.REQUEUED and message.attempts == 1:
            message.requeue(backoff=False, time_ms=flow.REQUEUE_MS)
            return
        if body == flow.TOUCHED:
            for _ in range(flow.TOUCHES):
                await asyncio.sleep(flow.TOUCH_EVERY_S)
                message.touch()
        message.finish()
        self.finished[flow.LONG if body == flow.LONG_BODY else body] = message.attempts
        self.progress.set()

    async def publish(self, command: str, *args: Any) -> None:
        """Until it succeeds: the writer reports errors while it is (re)connecting."""
        while True:
            done = asyncio.get_running_loop().create_future()
            getattr(self.writer, command)(
                flow.TOPIC, *args, callback=lambda _, data, done=done: done.set_result(data)
            )
            if await done == b"OK":
                return
            await asyncio.sleep(0.1)

    async def until(self, *bodies: str) -> None:
        while not set(bodies) <= set(self.finished):
            self.progress.clear()
            await self.progress.wait()


async def play_all(client: Client) -> None:
    await client.publish("pub", flow.SINGLE.encode())
    await client.publish("mpub", [body.encode() for body in flow.MULTIPLE])
    await client.publish("dpub", flow.DEFER_MS, flow.DEFERRED.encode())
    await client.publish("pub", flow.REQUEUED.encode())
    await client.publish("pub", flow.TOUCHED.encode())
    await client.until(*flow.FIRST_PART)
    await asyncio.sleep(flow.IDLE_S)
    await client.publish("pub", flow.LAST.encode())
    await client.until(flow.LAST)


async def play_restart(client: Client) -> None:
    await client.publish("pub", flow.BEFORE.encode())
    await client.until(flow.BEFORE)
    await asyncio.sleep(0.3)
    await asyncio.to_thread(flow.restart)
    await client.publish("pub", flow.AFTER.encode())
    await client.until(flow.AFTER)


async def play_layers(client: Client) -> None:
    await client.publish("pub", flow.SINGLE.encode())
    await client.publish("mpub", [body.encode() for body in flow.MULTIPLE])
    await client.publish("pub", flow.LONG_BODY.encode())
    await client.until(flow.SINGLE, *flow.MULTIPLE, flow.LONG)


async def play_lookup(client: Client) -> None:
    await client.publish("pub", flow.FOUND.encode())
    await client.until(flow.FOUND)


async def main() -> None:
    mode, tcp, lookup = flow.arguments()
    if layers(mode):
        client = Client(tcp, layers(mode), nsqd_tcp_addresses=[tcp])
        await play_layers(client)
    elif mode == "all":
        client = Client(tcp, {}, nsqd_tcp_addresses=[tcp])
        await play_all(client)
    else:  # without nsqlookupd its reader waits 15 s before it reconnects
        client = Client(tcp, {}, lookupd_http_addresses=[f"http://{lookup}"])
        await (play_lookup(client) if mode == "lookup" else play_restart(client))
    await asyncio.sleep(0.2)  # the last FIN leaves
    flow.report(client.finished)


asyncio.run(main())
