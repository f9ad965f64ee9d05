"""Pulls that wait for messages: each until one comes that it wants, or its time is up.

See RocketMQ spec 4.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.pull.pull_search import (
    TAKEN_AGAIN,
    Pulled,
    PullHeader,
    PullSearch,
)
from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.storage.batch import Batch

if TYPE_CHECKING:
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.state.group_table import GroupTable
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.remoting import Connection

HELD_MAX: Final = 200_000
"""Pulls held at once; further ones are answered at once with what there is: nothing."""
_SECOND_MS: Final = 1000
_IN_VAIN: Final = (ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_NOT_FOUND)

Place = tuple[str, int]


class _Held:
    """A pull that waits."""

    __slots__ = ("connection", "grounds", "header", "pulled", "request", "subscription", "timer")

    def __init__(
        self,
        connection: Connection,
        request: Command,
        header: PullHeader,
        subscription: Subscription,
        pulled: Pulled,
        timer: asyncio.TimerHandle,
        grounds: tuple[object, ...],
    ) -> None:
        self.connection = connection
        self.grounds = grounds
        self.request = request
        self.header = header
        self.subscription = subscription
        self.pulled = pulled
        self.timer = timer


class HeldPulls:
    """All pulls that wait, by topic and queue."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients[Connection],
        search: PullSearch,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._search = search
        self._held: dict[Place, dict[tuple[Connection, int], _Held]] = {}
        self._of: dict[Connection, set[tuple[Place, int]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(
        self,
        connection: Connection,
        request: Command,
        header: PullHeader,
        subscription: Subscription,
        pulled: Pulled,
    ) -> bool:
        """Answer this pull later; False when that cannot be, and it is to be answered now."""
        settings = self._settings
        wait_ms = header.suspend_ms
        # Java's brokers without long polling still hold a pull, for a second by default.
        if not settings.long_polling_enable:
            wait_ms = settings.short_polling_time_mills
        # A number that a client uses twice would hide its first pull in the table.
        key, place = (connection, request.opaque), (header.topic, header.queue)
        if self._count >= HELD_MAX or wait_ms <= 0 or key in self._held.get(place, ()):
            return False
        loop = asyncio.get_running_loop()
        # To the moment, where Java looks every 5 s (RocketMQ spec 4.3).
        timer = loop.call_later(wait_ms / _SECOND_MS, self._give_up, place, key)
        held = _Held(
            connection, request, header, subscription, pulled, timer, self._grounds(header)
        )
        self._held.setdefault(place, {})[key] = held
        self._of.setdefault(connection, set()).add((place, request.opaque))
        self._count += 1
        return True

    def _grounds(self, header: PullHeader) -> tuple[object, ...]:
        """The permissions, group and subscription that decide which messages a pull may have."""
        online = self._clients.consumers.get(header.group)
        return (
            self._settings.broker_permission,
            self._topics.get(header.topic),
            self._groups.get(header.group),
            online.subscriptions.get(header.topic) if online is not None else None,
        )

    def arrived(self, topic: str, batches: Sequence[Batch]) -> None:
        """Serve those who wait for the queues that have grown; as in Java, a pull that was let wait
        on other grounds than there are now is taken again.
        """
        if self._held:
            for queue in {batch.queue for batch in batches}:
                self._serve(topic, queue)

    def _serve(self, topic: str, queue: int) -> None:
        waiting = self._held.get((topic, queue))
        if waiting is None:
            return
        for key, held in list(waiting.items()):
            # Without room for the answer, the connection takes the request again when there is
            # some.
            if not held.connection.has_room or held.grounds != self._grounds(held.header):
                self._drop((topic, queue), key)
                # From the start, with all checks: permissions may have changed, say.
                held.connection.take_again(_committed(held))
                continue
            try:
                pulled = self._search.find(held.header, held.subscription)
            except StorageError:  # which is answered when it is taken again; others may read on
                self._drop((topic, queue), key)
                held.connection.take_again(_committed(held))
                continue
            if pulled.code in _IN_VAIN and pulled.next_offset >= pulled.max_offset:
                # Nothing that it wants: it waits on, from behind what was looked at. If more has
                # come than one search looks at, it asks again at once, as after any search in vain.
                held.header = replace(held.header, offset=pulled.next_offset)
                held.pulled = replace(held.pulled, next_offset=pulled.next_offset)
                continue
            self._drop((topic, queue), key)
            self._search.respond(held.connection, held.request, held.header, pulled)

    def _give_up(self, place: Place, key: tuple[Connection, int]) -> None:
        held = self._drop(place, key)
        if held is not None:
            low, high = self._search.store.bounds(*place)
            # The code is still that of the search in vain, 19; the bounds have moved while it
            # waited.
            pulled = replace(held.pulled, min_offset=low, max_offset=high)
            self._search.respond(held.connection, held.request, held.header, pulled)

    def deleted(self, topic: str) -> None:
        """A topic is gone: there is nothing to wait for in it."""
        for place in [place for place in self._held if place[0] == topic]:
            # Answered at once: without a topic, each would wait for its whole time.
            for key in list(self._held[place]):
                self._give_up(place, key)

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        for place, opaque in list(self._of.get(connection, ())):
            self._drop(place, (connection, opaque))

    def _drop(self, place: Place, key: tuple[Connection, int]) -> _Held | None:
        waiting = self._held.get(place, {})
        held = waiting.pop(key, None)
        if held is None:
            return None
        if not waiting:
            del self._held[place]
        held.timer.cancel()
        own = self._of[held.connection]
        own.discard((place, key[1]))
        if not own:
            del self._of[held.connection]
        self._count -= 1
        return held


def _committed(held: _Held) -> Command:
    """The request to be taken again. What it commits was committed when it came, and the group may
    have moved on. Its fields stay as they are, since they are signed.
    """
    held.request.flag |= TAKEN_AGAIN
    return held.request
