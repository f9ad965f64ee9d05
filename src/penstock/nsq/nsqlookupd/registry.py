"""The producers of each topic and channel: the whole state of nsqlookupd, kept in memory only.

A key (a topic, or a channel of one) outlives its producers, so that what once existed stays listed;
it goes by HTTP delete, or when the last producer of an ephemeral one unregisters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.core.clock import Clock
from penstock.core.names import is_ephemeral
from penstock.net.address import join_host_port
from penstock.nsq.nsqlookupd.protocol import PeerInfo


class Producer:
    """One connected nsqd."""

    __slots__ = ("info", "last_update", "remote_address", "seen", "topics")

    def __init__(self, remote_address: str, info: PeerInfo) -> None:
        self.remote_address = remote_address
        """The connection's ``host:port``, which is also the producer's id."""
        self.info = info
        self.last_update = 0
        """Wall clock in ns of the last PING or IDENTIFY, for /debug."""
        self.seen = 0
        """Monotonic clock in ns of the same, for deciding what is active."""
        self.topics: set[str] = set()
        """Every topic it registered, or registered a channel of, and perhaps lost since."""

    @property
    def nodes(self) -> tuple[str, str]:
        """The names that a tombstone may use: an IPv6 address stands with or without brackets."""
        host, port = self.info.broadcast_address, self.info.http_port
        return f"{host}:{port}", join_host_port(host, port)


class Registration:
    """That a producer has a topic or channel."""

    __slots__ = ("producer", "tombstoned_at", "tombstoned_wall")

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.tombstoned_at: int | None = None
        """Monotonic ns; None when never."""
        self.tombstoned_wall = 0


Registrations = dict[str, Registration]
"""Registrations by the producer's id."""


class RegistryFigures(NamedTuple):
    """Numbers of what is registered."""

    producers: int
    silent_producers: int
    topics: int
    empty_topics: int
    channels: int
    tombstones: int


class Registry:
    """The table behind TCP and HTTP; times are nanoseconds."""

    def __init__(self, clock: Clock, inactive_timeout: int, tombstone_lifetime: int) -> None:
        self._clock = clock
        self._inactive_timeout = inactive_timeout
        self._tombstone_lifetime = tombstone_lifetime
        self._producers: dict[str, Producer] = {}
        self._topics: dict[str, Registrations] = {}
        self._channels: dict[str, dict[str, Registrations]] = {}
        self.gone_count = 0
        """Producers whose connection has ended since the start."""

    # -- what nsqd does

    def connect(self, producer: Producer) -> None:
        """A producer has identified itself."""
        self._producers[producer.remote_address] = producer
        self.touch(producer)

    def touch(self, producer: Producer) -> None:
        """A producer gave a sign of life."""
        # Two clocks: a system time that is set must not make every producer inactive.
        producer.last_update = self._clock.wall_ns()
        producer.seen = self._clock.monotonic_ns()

    def disconnect(self, producer: Producer) -> None:
        """A producer is gone; the keys stay, also ephemeral ones."""
        self._producers.pop(producer.remote_address, None)
        self.gone_count += 1
        # nsqlookupd keeps the keys, so topics of a node that restarts stay listed.
        for topic in producer.topics:
            for registrations in self._keys_of(topic):
                registrations.pop(producer.remote_address, None)

    def register(self, producer: Producer, topic: str, channel: str = "") -> None:
        """Enter a topic, and a channel if one is given; a tombstone stays what it was."""
        producer.topics.add(topic)
        keys = [self._topics.setdefault(topic, {})]
        if channel:
            keys.append(self._channels.setdefault(topic, {}).setdefault(channel, {}))
        for registrations in keys:
            # nsqlookupd keeps the entry of a producer that registers again, with its tombstone.
            registrations.setdefault(producer.remote_address, Registration(producer))

    def unregister_channel(self, producer: Producer, topic: str, channel: str) -> None:
        """Take a producer from a channel; an ephemeral channel goes with its last one."""
        registrations = self._channels.get(topic, {}).get(channel)
        if registrations is None:
            return
        registrations.pop(producer.remote_address, None)
        # nsqlookupd forgets an ephemeral channel here, but not when a connection ends.
        if not registrations and is_ephemeral(channel):
            self.delete_channel(topic, channel)

    def unregister_topic(self, producer: Producer, topic: str) -> list[str]:
        """Take a producer from a topic and its channels; return the channels it still had."""
        left = [
            name
            for name, registrations in self._channels.get(topic, {}).items()
            if registrations.pop(producer.remote_address, None) is not None
        ]
        registrations = self._topics.get(topic)
        if registrations is not None:
            registrations.pop(producer.remote_address, None)
            # Any other topic stays listed without a producer (NSQ spec 4.1).
            if not registrations and is_ephemeral(topic):
                del self._topics[topic]
        producer.topics.discard(topic)
        return left

    # -- what HTTP does

    def create_topic(self, topic: str) -> None:
        """Enter a topic without a producer."""
        self._topics.setdefault(topic, {})

    def create_channel(self, topic: str, channel: str) -> None:
        """Enter a channel and its topic without a producer."""
        self.create_topic(topic)
        self._channels.setdefault(topic, {}).setdefault(channel, {})

    def delete_topic(self, topic: str) -> None:
        """Forget a topic and its channels, whoever has them; nsqd is not told."""
        # nsqlookupd does not tell nsqd, although NSQ's documents say so: nsqadmin does that.
        self._topics.pop(topic, None)
        self._channels.pop(topic, None)

    def delete_channel(self, topic: str, channel: str) -> bool:
        """Forget a channel; False when there is no such channel."""
        channels = self._channels.get(topic, {})
        found = channels.pop(channel, None) is not None
        if found and not channels:  # ephemeral topics come and go, with ever new names
            del self._channels[topic]
        return found

    def tombstone(self, topic: str, node: str) -> int:
        """Hide the producers at ``node`` (``host:http_port``) from look-ups of a topic for a while.

        Returns how many.
        """
        found = [
            registration
            for registration in self._topics.get(topic, {}).values()
            if node in registration.producer.nodes
        ]
        # nsqlookupd hides the producer from look-ups of the topic alone; /nodes still has it.
        for registration in found:
            registration.tombstoned_at = self._clock.monotonic_ns()
            registration.tombstoned_wall = self._clock.wall_ns()
        return len(found)

    # -- what is asked

    def has_topic(self, topic: str) -> bool:
        return topic in self._topics

    def topics(self) -> list[str]:
        """All topics by name."""
        return sorted(self._topics)

    def channels(self, topic: str) -> list[str]:
        """A topic's channels by name, none for an unknown topic."""
        return sorted(self._channels.get(topic, {}))

    def topic_producers(self, topic: str) -> list[Producer]:
        """The producers that can be asked for a topic: the active ones without a tombstone."""
        return [
            registration.producer
            for registration in self._topics.get(topic, {}).values()
            if self._is_active(registration.producer) and not self.is_hidden(registration)
        ]

    def figures(self) -> RegistryFigures:
        """The numbers of producers, topics and channels, as look-ups see them now."""
        producers, topics = self._producers.values(), self._topics.values()
        return RegistryFigures(
            producers=len(producers),
            silent_producers=sum(not self._is_active(each) for each in producers),
            topics=len(topics),
            empty_topics=sum(not self.topic_producers(topic) for topic in self._topics),
            channels=sum(len(channels) for channels in self._channels.values()),
            tombstones=sum(self.is_hidden(each) for found in topics for each in found.values()),
        )

    def nodes(self) -> list[tuple[Producer, list[tuple[str, bool]]]]:
        """Every active producer with its topics by name, and whether each is tombstoned."""
        return [
            (producer, self._topics_of(producer))
            for producer in self._producers.values()
            if self._is_active(producer)
        ]

    def is_hidden(self, registration: Registration) -> bool:
        """True if a tombstone is in force."""
        since = registration.tombstoned_at
        now = self._clock.monotonic_ns()
        return since is not None and now - since < self._tombstone_lifetime

    def entries(self) -> Iterator[tuple[str, list[Registration]]]:
        """Every key as ``category:key:subkey`` with who registered it, for /debug; empty ones
        not.
        """
        if self._producers:
            yield "client::", [Registration(producer) for producer in self._producers.values()]
        for topic, registrations in self._topics.items():
            if registrations:
                yield f"topic:{topic}:", list(registrations.values())
        for topic, channels in self._channels.items():
            for channel, registrations in channels.items():
                if registrations:
                    yield f"channel:{topic}:{channel}", list(registrations.values())

    def _is_active(self, producer: Producer) -> bool:
        return self._clock.monotonic_ns() - producer.seen <= self._inactive_timeout

    def _topics_of(self, producer: Producer) -> list[tuple[str, bool]]:
        found = []
        for topic in sorted(producer.topics):
            registration = self._topics.get(topic, {}).get(producer.remote_address)
            if registration is not None:
                found.append((topic, self.is_hidden(registration)))
        return found

    def _keys_of(self, topic: str) -> Iterator[Registrations]:
        registrations = self._topics.get(topic)
        if registrations is not None:
            yield registrations
        yield from self._channels.get(topic, {}).values()
