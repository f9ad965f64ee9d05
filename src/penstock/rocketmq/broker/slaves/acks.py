"""Sends that wait until a slave has them, as those of Java's SYNC_MASTER (RocketMQ spec 7.4).

The message is stored and seen all the same: the answer says that no slave is there, or that none
had it in time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.core.units import MILLISECOND, SECOND
from penstock.node.followers import Followers
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.storage.log import Log

AckCallback = Callable[[ResponseCode], None]

NEAR: Final = 16
"""Messages that a slave may lack without being measured in bytes: they are its next answer."""


class _Waiting(Struct):
    """A send that waits for its log to be copied up to ``end``."""

    log: Log
    end: int
    until_ns: int
    told: AckCallback
    is_told: bool = False

    def tell(self, code: ResponseCode) -> None:
        self.is_told = True
        self.told(code)


class SlaveAcks:
    """All sends that wait for a slave, by topic and in the order of their deadlines.

    A slave that is more than ``behind_max`` bytes behind is not waited for.
    """

    def __init__(
        self,
        followers: Followers,
        topics: Mapping[str, Topic],
        clock: Clock,
        timeout_ms: int,
        behind_max: int,
    ) -> None:
        self._followers = followers
        self._topics = topics
        self._clock = clock
        self._timeout_ns = timeout_ms * MILLISECOND
        self._behind_max = behind_max
        self._by_topic: dict[str, deque[_Waiting]] = {}
        self._by_deadline: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._asks = False

    def wait(self, topic: str, end: int, told: AckCallback) -> None:
        """Tell when a slave has a topic up to a log offset, or that none has."""
        found = self._topics.get(topic)
        log = found.log if found is not None else None
        if not isinstance(log, Log) or not self._is_near(topic, log, end):
            told(ResponseCode.SLAVE_NOT_AVAILABLE)
            return
        while self._by_deadline and self._by_deadline[0].is_told:
            self._by_deadline.popleft()
        waiting = _Waiting(log, end, self._clock.monotonic_ns() + self._timeout_ns, told)
        self._by_topic.setdefault(topic, deque()).append(waiting)
        self._by_deadline.append(waiting)
        loop = asyncio.get_running_loop()
        if not self._asks:
            self._asks = True
            # Once for all sends of this pass of the loop.
            loop.call_soon(self._ask)
        if self._timer is None:
            self._set_timer(loop)

    def _is_near(self, topic: str, log: Log, end: int) -> bool:
        """True if there is a slave that may have it soon."""
        # Code 11 at once, as in Java: nobody could have it in time (RocketMQ spec 7.4).
        if not len(self._followers):
            return False
        copied = max(self._followers.copied(topic, log), log.start_offset)
        return end - copied <= NEAR or log.bytes_from(copied) <= self._behind_max

    def _ask(self) -> None:
        self._asks = False
        self._followers.ask()

    def look(self) -> None:
        """Answer those whose messages a slave has."""
        for topic, waiting in list(self._by_topic.items()):
            copied = self._followers.copied(topic, waiting[0].log)
            while waiting and (waiting[0].is_told or waiting[0].end <= copied):
                each = waiting.popleft()
                if not each.is_told:
                    each.tell(ResponseCode.SUCCESS)
            if not waiting:
                del self._by_topic[topic]

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        late_ns = self._by_deadline[0].until_ns - self._clock.monotonic_ns()
        self._timer = loop.call_later(max(0.0, late_ns / SECOND), self._give_up)

    def _give_up(self) -> None:
        """Tell those that have waited too long."""
        self._timer = None
        waiting, now = self._by_deadline, self._clock.monotonic_ns()
        while waiting and (waiting[0].is_told or waiting[0].until_ns <= now):
            each = waiting.popleft()
            if not each.is_told:
                each.tell(ResponseCode.FLUSH_SLAVE_TIMEOUT)
        self.look()
        if waiting:
            self._set_timer(asyncio.get_running_loop())
