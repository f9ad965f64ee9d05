"""Producer and consumer for asyncio.

async with Producer("127.0.0.1:4150") as producer:
    await producer.publish("orders", b"...")

async with Consumer("orders", "billing", nsqd_tcp_addresses=["127.0.0.1:4150"]) as consumer:
    async for message in consumer:
        message.finish()
"""

from __future__ import annotations

from penstock.nsq.client.aio.consumer import Consumer
from penstock.nsq.client.aio.producer import Producer

__all__ = ["Consumer", "Producer"]
