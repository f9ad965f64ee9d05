"""Clients of RocketMQ: send, consume, poll, pop.

``Producer`` and the consumers here are asyncio's; ``penstock.rocketmq.client.blocking`` has their
twins on plain sockets. Importing any of them brings in neither numpy nor a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.core.errors import ConfigError
    from penstock.rocketmq.client.aio import (
        LitePullConsumer,
        PopConsumer,
        Producer,
        PushConsumer,
    )
    from penstock.rocketmq.client.config import Config
    from penstock.rocketmq.client.consume.consuming import RetryLater
    from penstock.rocketmq.client.consume.filters import sql
    from penstock.rocketmq.client.consume.popping import Popped
    from penstock.rocketmq.client.consume.received import Received
    from penstock.rocketmq.client.errors import (
        BrokerError,
        ClientError,
        NoReply,
        NoRoute,
        NotConnected,
        SendFailed,
        Stopped,
        TimedOut,
    )
    from penstock.rocketmq.client.message import Message
    from penstock.rocketmq.client.produce.sending import SendResult, SendStatus
    from penstock.rocketmq.client.produce.transactions import TransactionState
    from penstock.rocketmq.protocol.message_queue import MessageQueue

_HOME = {
    "BrokerError": "client.errors",
    "ClientError": "client.errors",
    "Config": "client.config",
    "ConfigError": "client.config",
    "LitePullConsumer": "client.aio",
    "Message": "client.message",
    "MessageQueue": "protocol.message_queue",
    "NoReply": "client.errors",
    "NoRoute": "client.errors",
    "NotConnected": "client.errors",
    "PopConsumer": "client.aio",
    "Popped": "client.consume.popping",
    "Producer": "client.aio",
    "PushConsumer": "client.aio",
    "Received": "client.consume.received",
    "RetryLater": "client.consume.consuming",
    "SendFailed": "client.errors",
    "SendResult": "client.produce.sending",
    "SendStatus": "client.produce.sending",
    "Stopped": "client.errors",
    "TimedOut": "client.errors",
    "TransactionState": "client.produce.transactions",
    "sql": "client.consume.filters",
}

__all__ = [
    "BrokerError",
    "ClientError",
    "Config",
    "ConfigError",
    "LitePullConsumer",
    "Message",
    "MessageQueue",
    "NoReply",
    "NoRoute",
    "NotConnected",
    "PopConsumer",
    "Popped",
    "Producer",
    "PushConsumer",
    "Received",
    "RetryLater",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "Stopped",
    "TimedOut",
    "TransactionState",
    "sql",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"penstock.rocketmq.{_HOME[name]}"), name)
