"""Telling brokers that a client is there, which groups it is in, and what it subscribes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.network.jobs import Job, all_of
from penstock.rocketmq.client.network.routes import MASTER
from penstock.rocketmq.client.network.timers import Timer
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.membership import heartbeat

_AGAIN_S: Final = 1.0
"""After a connection was lost, or a heartbeat failed."""


class Heartbeats:
    """Heartbeats to all brokers of the known routes.

    ``describe`` gives the groups: ``{"consumerDataSet": [...], "producerDataSet": [...]}``. A
    client that consumes tells replicas as well. A broker forgets a client with its connection, so
    a lost one is told again at once, not only with the next round.
    """

    def __init__(self, hub: Hub, describe: Callable[[], dict[str, Any]], group: str) -> None:
        self._hub = hub
        self._describe = describe
        self._group = group
        self._timer: Timer | None = None
        self._reached: set[str] = set()
        self._failed: set[str] = set()
        """The brokers that the last heartbeat did not reach: the clock has them tried again."""
        hub.on_lost.append(self._lost)

    @property
    def reached(self) -> set[str]:
        """The brokers that this client believes know it."""
        return set(self._reached)

    async def watch(self) -> None:
        """Beat for ever."""
        interval = self._hub.config.heartbeat_broker_interval
        while True:
            await self._hub.sleep(interval)
            await self.beat()

    async def beat(self) -> None:
        """Tell every broker now."""
        groups = self._describe()
        beats = [self._spawn(address, groups) for address in self._addresses(groups)]
        await all_of(beats)

    async def introduce(self) -> None:
        """Tell those brokers that were not told yet, but for those that could not be told: where a
        machine is off, each try takes seconds.
        """
        await self._tell_others(self._reached | self._failed)

    async def _tell_others(self, told: set[str]) -> None:
        groups = self._describe()
        known = self._addresses(groups)
        self._failed.intersection_update(known)  # one that comes back to the routes is told at once
        new = [each for each in known if each not in told]
        if new:
            await all_of([self._spawn(address, groups) for address in new])

    def _spawn(self, address: str, groups: dict[str, Any]) -> Job[None]:
        return self._hub.spawn(self._beat(address, groups), "heartbeat")

    def _addresses(self, groups: dict[str, Any]) -> list[str]:
        consumes = bool(groups.get("consumerDataSet"))
        return [
            address
            for replicas in self._hub.routes.brokers.values()
            for number, address in replicas.items()
            # Replicas serve pulls, and they filter by subscriptions; producers have no business
            # there.
            if number == MASTER or consumes
        ]

    async def _beat(self, address: str, groups: dict[str, Any]) -> None:
        try:
            await self._hub.demand(address, *heartbeat(self._hub.client_id, groups))
        except ClientError as error:
            self._reached.discard(address)
            self._failed.add(address)
            tell(
                logging.WARNING,
                "heartbeat-failed",
                f"send heart beat to broker failed: {error}",
                address=address,
                group=self._group,
            )
            self._soon()
        else:
            self._reached.add(address)
            self._failed.discard(address)

    def _lost(self, address: str) -> None:
        if address in self._reached:
            self._reached.discard(address)
            self._soon()

    def _soon(self) -> None:
        if self._timer is None and not self._hub.is_closed:
            self._timer = self._hub.later(_AGAIN_S, self._again)

    def _again(self) -> None:
        self._timer = None
        self._hub.spawn(self._tell_others(self._reached), "heartbeat")

    async def leave(self, **group: str) -> None:
        """Tell the brokers that the client leaves this group; those that do not answer are left."""
        fields = {"clientID": self._hub.client_id, **group}
        # Only those that know us: one that is off would hold the close up for a connect's time-out.
        reached, self._reached = self._reached, set()
        ask = self._hub.ask
        jobs = [
            self._hub.spawn(ask(address, RequestCode.UNREGISTER_CLIENT, dict(fields)), "leave")
            for address in reached
        ]
        await all_of(jobs)
