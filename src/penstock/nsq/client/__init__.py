"""Clients of NSQ: publish, consume, find nodes.

``Producer`` and ``Consumer`` here are asyncio's; ``penstock.nsq.client.blocking`` has their twins
on plain sockets. ``lookup`` asks nsqlookupd. What reads a Penstock node's log is in ``log_api``.
Importing any of them brings in neither numpy nor a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.core.errors import ConfigError
    from penstock.nsq.client.aio import Consumer, Producer
    from penstock.nsq.client.config import Config
    from penstock.nsq.client.consume.delivery import Delivery
    from penstock.nsq.client.errors import (
        ClientError,
        HandshakeFailed,
        NotConnected,
        ServerError,
        Stopped,
        TimedOut,
    )
    from penstock.nsq.client.lookup import Node, lookup
    from penstock.nsq.client.message import Message
    from penstock.nsq.client.state import ConnectionState

_HOME = {
    "ClientError": "errors",
    "Config": "config",
    "ConfigError": "errors",
    "ConnectionState": "state",
    "Consumer": "aio",
    "Delivery": "consume.delivery",
    "HandshakeFailed": "errors",
    "Message": "message",
    "Node": "lookup",
    "NotConnected": "errors",
    "Producer": "aio",
    "ServerError": "errors",
    "Stopped": "errors",
    "TimedOut": "errors",
    "lookup": "lookup",
}

__all__ = [
    "ClientError",
    "Config",
    "ConfigError",
    "ConnectionState",
    "Consumer",
    "Delivery",
    "HandshakeFailed",
    "Message",
    "Node",
    "NotConnected",
    "Producer",
    "ServerError",
    "Stopped",
    "TimedOut",
    "lookup",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
