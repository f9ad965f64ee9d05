"""The visible side of a client, the same for both shells; bases of their classes."""

from __future__ import annotations

from collections.abc import Callable

from penstock.rocketmq.client.consume.filters import Filter, filter_of
from penstock.rocketmq.client.consume.group import Group
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.state import ConnectionState, QueueState
from penstock.rocketmq.protocol.message_queue import MessageQueue


class ClientView:
    """Any client."""

    _hub: Hub

    @property
    def client_id(self) -> str:
        """The name by which brokers and other members know it."""
        return self._hub.client_id

    @property
    def connections(self) -> dict[str, ConnectionState]:
        """The connections at present, by address; live, and counted on."""
        return {address: wire.state for address, wire in self._hub.connections.items()}

    @property
    def name_servers(self) -> list[str]:
        """The name servers; the one that is asked comes first."""
        return list(self._hub.name_servers.addresses)

    def set_name_servers(self, addresses: str) -> None:
        """Ask these from now on: ``host:port;host:port``. Raises ConfigError."""
        self._hub.name_servers.set(addresses)


class ConsumerView(ClientView):
    """A consumer that has queues."""

    _core: Group

    @property
    def queues(self) -> list[QueueState]:
        """The queues that it has at present."""
        now = self._hub.clock.monotonic_ns()
        return [self._core.held[queue].state(now) for queue in sorted(self._core.held)]

    @property
    def on_queues_changed(self) -> Callable[[list[MessageQueue]], object] | None:
        """Called with all queues that it has, whenever they have become others."""
        return self._core.on_queues_changed

    @on_queues_changed.setter
    def on_queues_changed(self, call: Callable[[list[MessageQueue]], object] | None) -> None:
        self._core.on_queues_changed = call

    def subscribe(self, topic: str, wanted: str | Filter = "*") -> None:
        """Want messages of a topic: all, those with a tag of ``a || b``, or by ``sql``."""
        self._core.subscribe(topic, filter_of(wanted))

    def unsubscribe(self, topic: str) -> None:
        """Want no more of them."""
        self._core.unsubscribe(topic)

    def pause(self, *queues: MessageQueue) -> None:
        """Pull no more of these queues, or of all; what was pulled is still handed out."""
        self._core.pause(queues, is_paused=True)

    def resume(self, *queues: MessageQueue) -> None:
        """Go on."""
        self._core.pause(queues, is_paused=False)
