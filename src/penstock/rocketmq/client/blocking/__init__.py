"""Producer and consumers on plain sockets.

with Producer("orders", "127.0.0.1:9876") as producer:
    producer.send(Message("orders", b"..."))

with PushConsumer("billing", "127.0.0.1:9876") as consumer:
    consumer.subscribe("orders")
    consumer.run(handler)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.rocketmq.client.blocking.consumer import PushConsumer
    from penstock.rocketmq.client.blocking.lite_pull_consumer import LitePullConsumer
    from penstock.rocketmq.client.blocking.pop_consumer import PopConsumer
    from penstock.rocketmq.client.blocking.producer import Producer

_HOME = {
    "LitePullConsumer": "lite_pull_consumer",
    "PopConsumer": "pop_consumer",
    "Producer": "producer",
    "PushConsumer": "consumer",
}

__all__ = ["LitePullConsumer", "PopConsumer", "Producer", "PushConsumer"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
