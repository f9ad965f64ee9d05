"""Producer and consumer on plain sockets, for tools, scripts and Spark workers.

Nothing runs in the background. Heartbeats are answered whenever a method is called that reads: a
consumer must come back for the next message within two heartbeat intervals (a minute by default),
and a producer's connection has no heartbeats at all. Not for use by several threads at once.
"""

from __future__ import annotations

from penstock.nsq.client.blocking.connection import Connection
from penstock.nsq.client.blocking.consumer import Consumer
from penstock.nsq.client.blocking.producer import Producer
from penstock.nsq.client.consume.delivery import Delivery

__all__ = ["Connection", "Consumer", "Delivery", "Producer"]
