"""Producer and consumers for asyncio.

async with Producer("orders", "127.0.0.1:9876") as producer:
    await producer.send(Message("orders", b"..."))

async with PushConsumer("billing", "127.0.0.1:9876") as consumer:
    consumer.subscribe("orders")
    await consumer.run(handler)
"""

from __future__ import annotations

from penstock.rocketmq.client.aio.consumer import PushConsumer
from penstock.rocketmq.client.aio.lite_pull_consumer import LitePullConsumer
from penstock.rocketmq.client.aio.pop_consumer import PopConsumer
from penstock.rocketmq.client.aio.producer import Producer

__all__ = ["LitePullConsumer", "PopConsumer", "Producer", "PushConsumer"]
