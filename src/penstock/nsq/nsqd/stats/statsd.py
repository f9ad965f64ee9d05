"""The statistics that nsqd sends to a statsd: lines packed into datagrams (NSQ spec 3.14).

    nsq.127_0_0_1_4151.topic.events.depth:17|g

Counters (``c``) are told as the difference since the last push, gauges (``g``) as they are. A
counter that has become smaller belongs to a topic or channel created again under its old name: all
of it is new then. (Go's nsqd sends a negative difference, which most statsds subtract.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from penstock.core.names import is_ephemeral
from penstock.net.address import join_host_port

_CHANNEL_KEYS: Final = (
    ("message_count", "message_count", "c"),
    ("depth", "depth", "g"),
    ("backend_depth", "backend_depth", "g"),
    ("in_flight_count", "in_flight_count", "g"),
    ("deferred_count", "deferred_count", "g"),
    ("requeue_count", "requeue_count", "c"),
    ("timeout_count", "timeout_count", "c"),
    ("clients", "client_count", "g"),
)
_TOPIC_KEYS: Final = (
    ("message_count", "message_count", "c"),
    ("message_bytes", "message_bytes", "c"),
    ("depth", "depth", "g"),
    ("backend_depth", "backend_depth", "g"),
)
_MEMORY_KEYS: Final = (
    ("heap_objects", "heap_objects", "g"),
    ("heap_idle_bytes", "heap_idle_bytes", "g"),
    ("heap_in_use_bytes", "heap_in_use_bytes", "g"),
    ("heap_released_bytes", "heap_released_bytes", "g"),
    ("gc_pause_usec_100", "gc_pause_usec_100", "g"),
    ("gc_pause_usec_99", "gc_pause_usec_99", "g"),
    ("gc_pause_usec_95", "gc_pause_usec_95", "g"),
    ("next_gc_bytes", "next_gc_bytes", "g"),
    ("gc_runs", "gc_total_runs", "c"),
)


def resolved_prefix(prefix: str, host: str, port: int) -> str:
    """``--statsd-prefix`` with this nsqd's address for ``%s`` and a dot at its end; "" stays."""
    address = join_host_port(host, port).replace(".", "_").replace(":", "_")
    prefix = prefix.replace("%s", address)
    # nsqd adds the dot, unless the prefix is empty; names in dashboards begin with it.
    return prefix if not prefix or prefix.endswith(".") else f"{prefix}."


class StatsdLines:
    """The lines of one push after the other."""

    def __init__(self, prefix: str, *, exclude_ephemeral: bool = False) -> None:
        self._prefix = prefix
        self._exclude_ephemeral = exclude_ephemeral
        self._counters: dict[str, int] = {}

    def of(self, stats: dict[str, Any]) -> list[str]:
        """The lines for ``stats`` (as /stats has them in JSON; memory only if it is in there)."""
        # Those of this push alone, so that deleted topics are forgotten.
        before, self._counters = self._counters, {}
        lines = []
        for key, value, kind in self._values(stats):
            if kind == "c":
                self._counters[key] = value
                last = before.get(key, 0)
                value -= last if last <= value else 0
            lines.append(f"{self._prefix}{key}:{value}|{kind}\n")
        return lines

    def _values(self, stats: dict[str, Any]) -> Iterator[tuple[str, int, str]]:
        for topic in stats["topics"]:
            if self._exclude_ephemeral and is_ephemeral(topic["topic_name"]):
                continue
            prefix = f"topic.{topic['topic_name']}"
            for key, name, kind in _TOPIC_KEYS:
                yield f"{prefix}.{key}", topic[name], kind
            yield from _latencies(prefix, topic)
            for channel in topic["channels"]:
                if not (self._exclude_ephemeral and is_ephemeral(channel["channel_name"])):
                    yield from _channel(f"{prefix}.channel.{channel['channel_name']}", channel)
        if "memory" in stats:
            for key, name, kind in _MEMORY_KEYS:
                yield f"mem.{key}", stats["memory"][name], kind


def _channel(prefix: str, channel: dict[str, Any]) -> Iterator[tuple[str, int, str]]:
    for key, name, kind in _CHANNEL_KEYS:
        yield f"{prefix}.{key}", channel[name], kind
    yield from _latencies(prefix, channel)


def _latencies(prefix: str, stats: dict[str, Any]) -> Iterator[tuple[str, int, str]]:
    for each in stats["e2e_processing_latency"]["percentiles"] or ():
        # nsqd rounds the percentile in the name: 0.999 is called 100.
        key = f"{prefix}.e2e_processing_latency_{each['quantile'] * 100:.0f}"
        yield key, int(each["value"]), "g"


def packets(lines: Iterable[str], size: int) -> list[bytes]:
    """The lines in datagrams of at most ``size`` bytes; a line is never split, however long."""
    made: list[bytes] = []
    packet = b""
    for line in lines:
        encoded = line.encode()
        if packet and len(packet) + len(encoded) > size:
            made.append(packet)
            packet = b""
        packet += encoded
    if packet:
        made.append(packet)
    return made
