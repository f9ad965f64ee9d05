"""Tracing of an nsqd's messages, which loads OpenTelemetry if ``--trace-messages`` asks for it."""

from __future__ import annotations

import asyncio
import logging
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from penstock.core.errors import ConfigError
from penstock.node.node import Node
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.nsqd.tracing.message_spans import MessageSpans

if TYPE_CHECKING:
    from penstock.nsq.nsqd.tracing.otlp import Otlp

logger = logging.getLogger("penstock.nsqd")

_NEEDED: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


def check_tracing(options: NsqdOptions) -> None:
    """Raise ConfigError if spans are asked for and OpenTelemetry is not installed."""
    if options.trace_messages and not all(map(_is_installed, _NEEDED)):
        raise ConfigError("--trace-messages needs OpenTelemetry: pip install 'penstock[otel]'")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


class Tracing:
    """The spans of a node's messages and their way out; ``close`` sends the last ones."""

    def __init__(self, node: Node, every: int, otlp: Otlp) -> None:
        self._node = node
        self._every = every
        self._otlp = otlp
        self._spans = MessageSpans(node.broker.topics, node.clock, every, otlp.emit)

    @classmethod
    def of(cls, node: Node, options: NsqdOptions) -> Tracing | None:
        """The tracing that the options ask for, which ``check_tracing`` has passed. Raises
        ConfigError.
        """
        if not options.trace_messages:
            return None
        from penstock.nsq.nsqd.tracing.otlp import Otlp

        try:
            port = options.broadcast_tcp_port or options.tcp_address.rpartition(":")[2]
            otlp = Otlp(f"{options.broadcast_address}:{port}")
        except ValueError as error:
            raise ConfigError(f"--trace-messages: a wrong OTEL_ variable - {error}") from error
        return cls(node, options.trace_messages, otlp)

    def start(self) -> None:
        """Observe all topics and channels, those that are there and those to come."""
        logger.info("TRACES: one message in %d to %s", self._every, self._otlp.address)
        self._node.broker.observe(self._spans)
        self._node.registry.observe(self._spans)
        for topic in self._node.broker.topics.values():
            for channel in topic.channels.values():
                self._spans.channel_created(topic, channel)

    async def close(self) -> None:
        """Send what waits, for three seconds at most."""
        await asyncio.to_thread(self._otlp.close)
