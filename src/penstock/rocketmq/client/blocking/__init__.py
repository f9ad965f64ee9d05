"""Producer and consumers on plain sockets.

with Producer("orders", "127.0.0.1:9876") as producer:
    producer.send(Message("orders", b"..."))

with PushConsumer("billing", "127.0.0.1:9876") as consumer:
    consumer.subscribe("orders")
    consumer.run(handler)
"""

from __future__ import annotations

from penstock.rocketmq.client.blocking.consumer import PushConsumer
from penstock.rocketmq.client.blocking.lite_pull_consumer import LitePullConsumer
from penstock.rocketmq.client.blocking.pop_consumer import PopConsumer
from penstock.rocketmq.client.blocking.producer import Producer

__all__ = ["LitePullConsumer", "PopConsumer", "Producer", "PushConsumer"]
