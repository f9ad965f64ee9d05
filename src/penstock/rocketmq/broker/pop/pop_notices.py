"""Waiting until there is something to pop, without popping it (RocketMQ spec 2.7, NOTIFICATION)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.rocketmq.broker.answering import answers
from penstock.rocketmq.broker.pop.popping import POLL_MS_MAX, Popping
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.pop.pops import Pops
    from penstock.rocketmq.broker.pull.arrivals import Arrivals
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.remoting import Connection

_AGAIN_S: Final = 0.01
"""The least time until it is looked again for messages that are visible again about now."""


@dataclass(slots=True, eq=False)
class PopNotices:
    """Answers to groups that wait for something to pop."""

    topics: TopicTable
    arrivals: Arrivals
    pops: Pops
    popping: Popping
    clock: Clock

    @answers(RequestCode.NOTIFICATION)
    async def notification(self, connection: Connection, request: Command) -> Command:
        """Tell if a group has messages to pop, as soon as some come or when the time is over."""
        topic, group = self.popping.checked(connection, request)
        poll_ms = min(max(0, request.int64("pollTime")), POLL_MS_MAX)
        if request.boolean("order"):
            return await self._in_order(request, (topic, group), poll_ms)
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_ms / 1000
        while not self._has_messages(topic, group) and loop.time() < end:
            seconds = end - loop.time()
            hidden_s = self.pops.hidden_s(topic, group)
            # A hidden message that becomes visible wakes nobody, so the wait ends when the next one
            # does.
            if hidden_s is not None:
                seconds = min(seconds, max(_AGAIN_S, hidden_s))
            if not await self.arrivals.wait(topic, seconds):
                return _answer(request, self._has_messages(topic, group), True)
        return _answer(request, self._has_messages(topic, group), False)

    async def _in_order(self, request: Command, key: tuple[str, str], poll_ms: int) -> Command:
        """Tell if a queue has messages of which no batch is out, as soon as one has."""
        attempt, queue = request.optional("attemptId") or None, request.int32("queueId")
        ordered = self.pops.ordered

        def has_messages() -> bool:
            config = self.topics.get(key[0])
            queues = range(config.read_queues if config is not None else 0)
            return any(
                ordered.has_messages(key, each, attempt)
                for each in queues
                if queue < 0 or queue == each
            )

        loop = asyncio.get_running_loop()
        end = loop.time() + poll_ms / 1000
        while not has_messages() and loop.time() < end:
            free_ms = ordered.table.free_ms(key, wall_ms(self.clock))
            seconds = end - loop.time()
            if free_ms is not None:
                seconds = min(seconds, max(1, free_ms - wall_ms(self.clock)) / 1000)
            if not await self.arrivals.wait(key[0], seconds):
                return _answer(request, has_messages(), True)
        return _answer(request, has_messages(), False)

    def _has_messages(self, topic: str, group: str) -> bool:
        return any(next_ > first for first, next_, _ in self.pops.waiting(topic, group))


def _answer(request: Command, has_messages: bool, polling_full: bool) -> Command:
    return request.answer(
        ext={"hasMsg": str(has_messages).lower(), "pollingFull": str(polling_full).lower()}
    )
