"""Clients of NSQ: publish, consume, find nodes, read the log.

``blocking`` and ``aio`` have the same Producer and Consumer, for plain sockets and for asyncio;
``log`` reads a Penstock node's log over HTTP; ``lookup`` asks nsqlookupd. The blocking ones need
the standard library only, and importing any of them brings in neither numpy nor a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.nsq.client.blocking import Connection, Consumer, Producer
    from penstock.nsq.client.errors import ClientError, NotConnected, ServerError
    from penstock.nsq.client.log import LogClient
    from penstock.nsq.client.lookup import Node, lookup
    from penstock.nsq.client.message import Message
    from penstock.nsq.client.settings import Settings

_HOME = {
    "ClientError": "errors",
    "Connection": "blocking",
    "Consumer": "blocking",
    "LogClient": "log",
    "Message": "message",
    "Node": "lookup",
    "NotConnected": "errors",
    "Producer": "blocking",
    "ServerError": "errors",
    "Settings": "settings",
    "lookup": "lookup",
}

__all__ = [
    "ClientError",
    "Connection",
    "Consumer",
    "LogClient",
    "Message",
    "Node",
    "NotConnected",
    "Producer",
    "ServerError",
    "Settings",
    "lookup",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
